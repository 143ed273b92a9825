//! Frames: numbered parts of a file, each behind a header with its length and its hash.
//!
//! ```text
//! header    mark, number, bytes of the payload, BLAKE3 of both numbers and the payload, first bytes of the BLAKE3 of all that
//! payload   whatever it is
//! ```
//!
//! All numbers are little-endian. A length is believed only under a header that is whole, so none makes a reader ask for
//! memory that the writer did not need.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use crate::control::Control;
use crate::error::Result;

/// The first bytes of a header. Change the digit with every change of the layout.
pub(crate) const MARK: &[u8; 8] = b"fpblock2";

/// Bytes of the mark, the two numbers and the hash.
const CHECKED: usize = 8 + 8 + 8 + 32;

/// Bytes of a header.
pub(crate) const HEADER: usize = CHECKED + 8;

/// Bytes of a payload that are hashed at once.
const PIECE: usize = 1 << 20;

/// A frame in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    number: u64,
    /// The offset of the payload.
    pub(crate) start: u64,
    /// Bytes of the payload.
    bytes: u64,
    hash: [u8; 32],
}

/// The header of a frame.
pub(crate) fn header(number: u64, payload: &[u8]) -> [u8; HEADER] {
    let bytes = payload.len() as u64;
    let mut hasher = hasher(number, bytes);
    hasher.update(payload);
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MARK);
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..24].copy_from_slice(&bytes.to_le_bytes());
    header[24..CHECKED].copy_from_slice(hasher.finalize().as_bytes());
    let check = check(&header);
    header[CHECKED..].copy_from_slice(&check);
    header
}

/// A hasher for the payload of a frame, already given the header's numbers.
fn hasher(number: u64, bytes: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(&bytes.to_le_bytes());
    hasher
}

/// The checksum at the end of a header, over the bytes before it.
fn check(header: &[u8; HEADER]) -> [u8; HEADER - CHECKED] {
    let hash = blake3::hash(&header[..CHECKED]);
    *hash.as_bytes().first_chunk().expect("a hash has more bytes")
}

impl Frame {
    /// The frame whose header is at offset `at`; `None` if there is none.
    fn read(header: &[u8; HEADER], at: u64) -> Option<Self> {
        if header[CHECKED..] != check(header) {
            return None;
        }
        let rest = header[..CHECKED].strip_prefix(MARK)?;
        let (number, rest) = rest.split_first_chunk()?;
        let (bytes, hash) = rest.split_first_chunk()?;
        Some(Self {
            number: u64::from_le_bytes(*number),
            start: at.checked_add(HEADER as u64)?,
            bytes: u64::from_le_bytes(*bytes),
            hash: hash.try_into().ok()?,
        })
    }

    /// The payload; `None` if it does not match the hash in the header.
    pub(crate) fn payload(&self, file: &File) -> io::Result<Option<Vec<u8>>> {
        let Ok(bytes) = usize::try_from(self.bytes) else { return Ok(None) };
        let mut payload = vec![0; bytes];
        read_at(file, &mut payload, self.start)?;
        let mut hasher = hasher(self.number, self.bytes);
        hasher.update(&payload);
        Ok((self.hash == *hasher.finalize().as_bytes()).then_some(payload))
    }

    /// Whether the payload matches the hash in the header.
    fn is_whole(
        &self,
        file: &File,
        piece: &mut Vec<u8>,
        control: &Control,
    ) -> Result<io::Result<bool>> {
        let mut hasher = hasher(self.number, self.bytes);
        let mut done = 0;
        while done < self.bytes {
            control.tick()?;
            let next = usize::try_from(self.bytes - done).map_or(PIECE, |rest| rest.min(PIECE));
            piece.resize(next, 0);
            if let Err(error) = read_at(file, piece, self.start + done) {
                return Ok(Err(error));
            }
            hasher.update(piece);
            done += next as u64;
        }
        Ok(Ok(self.hash == *hasher.finalize().as_bytes()))
    }
}

/// All frames of a file.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The last frame of each number.
    pub(crate) found: BTreeMap<u64, Frame>,
    /// The offset after the last frame.
    pub(crate) end: u64,
    /// A hash of all headers, in the order of the file.
    pub(crate) digest: blake3::Hash,
}

impl Frames {
    /// Reads the headers of `file`, up to the first damaged one.
    pub(crate) fn scan(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut found = BTreeMap::new();
        let mut digest = blake3::Hasher::new();
        let mut end = 0;
        while end + HEADER as u64 <= size {
            let mut header = [0; HEADER];
            read_at(file, &mut header, end)?;
            let Some(frame) = Frame::read(&header, end) else { break };
            let Some(after) = frame.start.checked_add(frame.bytes).filter(|after| *after <= size)
            else {
                break;
            };
            digest.update(&header);
            found.insert(frame.number, frame);
            end = after;
        }
        Ok(Self { found, end, digest: digest.finalize() })
    }

    /// Whether all payloads of `file` match their hashes. Of several frames with one number, the last counts.
    pub(crate) fn are_whole(&self, file: &File, control: &Control) -> Result<io::Result<bool>> {
        let mut piece = Vec::new();
        for frame in self.found.values() {
            match frame.is_whole(file, &mut piece, control)? {
                Ok(true) => {}
                other => return Ok(other),
            }
        }
        Ok(Ok(true))
    }
}

/// Reads at an offset, independently of other threads.
#[cfg(unix)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Writes at an offset, independently of other threads.
#[cfg(unix)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Reads at an offset, independently of other threads.
#[cfg(windows)]
pub(crate) fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes at an offset, independently of other threads.
#[cfg(windows)]
pub(crate) fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
