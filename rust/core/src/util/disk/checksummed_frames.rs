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

/// The first bytes of a header. Change the digit with every change of the layout.
pub(crate) const MARK: &[u8; 8] = b"fpblock2";

/// Bytes of the mark, the two numbers and the hash.
const CHECKED: usize = 8 + 8 + 8 + 32;

/// Bytes of a header.
pub(crate) const HEADER: usize = CHECKED + 8;

/// A frame in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChecksummedFrame {
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

impl ChecksummedFrame {
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
}

/// All frames of a file.
#[derive(Debug)]
pub(crate) struct ChecksummedFrames {
    /// The last frame of each number.
    pub(crate) found: BTreeMap<u64, ChecksummedFrame>,
    /// The offset after the last frame.
    pub(crate) end: u64,
    /// A hash of all headers, in the order of the file.
    pub(crate) digest: blake3::Hash,
}

impl ChecksummedFrames {
    /// Reads the headers of `file`, up to the first damaged one.
    pub(crate) fn scan(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut found = BTreeMap::new();
        let mut digest = blake3::Hasher::new();
        let mut end = 0;
        while end + HEADER as u64 <= size {
            let mut header = [0; HEADER];
            read_at(file, &mut header, end)?;
            let Some(frame) = ChecksummedFrame::read(&header, end) else { break };
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
}

/// The digest of a file of frames whose bytes come one after another.
#[derive(Debug, Default)]
pub(crate) struct FramesHasher {
    /// The bytes of the header that is incomplete.
    header: Vec<u8>,
    /// The frame whose payload is incomplete: its hash so far, and the bytes that are missing.
    open: Option<(ChecksummedFrame, Box<blake3::Hasher>, u64)>,
    /// The offset after the bytes so far.
    end: u64,
    /// True if the last frame of each number matches its hash: of several, the last counts.
    are_whole: BTreeMap<u64, bool>,
    digest: Box<blake3::Hasher>,
    is_damaged: bool,
}

impl FramesHasher {
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_damaged {
            let missing = match &self.open {
                Some((_, _, missing)) => usize::try_from(*missing).unwrap_or(usize::MAX),
                None => HEADER - self.header.len(),
            };
            let (part, rest) = bytes.split_at(missing.min(bytes.len()));
            bytes = rest;
            self.end += part.len() as u64;
            if let Some((_, hasher, missing)) = &mut self.open {
                hasher.update(part);
                *missing -= part.len() as u64;
            } else {
                self.header.extend_from_slice(part);
                self.begin_frame();
            }
            self.end_frame();
        }
    }

    /// Begins a frame if its header is complete.
    fn begin_frame(&mut self) {
        let Ok(header) = <&[u8; HEADER]>::try_from(&*self.header) else { return };
        let Some(frame) = ChecksummedFrame::read(header, self.end - HEADER as u64) else {
            self.is_damaged = true;
            return;
        };
        self.digest.update(header);
        self.header.clear();
        self.open = Some((frame, Box::new(hasher(frame.number, frame.bytes)), frame.bytes));
    }

    /// Ends a frame if its payload is complete.
    fn end_frame(&mut self) {
        if let Some((frame, hasher, _)) = self.open.take_if(|(_, _, missing)| *missing == 0) {
            let is_whole = frame.hash == *hasher.finalize().as_bytes();
            self.are_whole.insert(frame.number, is_whole);
        }
    }

    /// The hash of all headers; `None` if a payload does not match its header, or the last frame is incomplete.
    pub(crate) fn finalize(&self) -> Option<blake3::Hash> {
        let is_complete = !self.is_damaged && self.header.is_empty() && self.open.is_none();
        let is_whole = is_complete && self.are_whole.values().all(|is_whole| *is_whole);
        is_whole.then(|| self.digest.finalize())
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file of these frames.
    fn written(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, payload) in frames {
            bytes.extend(header(*number, payload));
            bytes.extend(payload);
        }
        bytes
    }

    fn hashed(bytes: &[u8], step: usize) -> Option<blake3::Hash> {
        let mut hasher = FramesHasher::default();
        bytes.chunks(step).for_each(|part| hasher.update(part));
        hasher.finalize()
    }

    #[test]
    fn bytes_that_come_in_parts_have_the_digest_of_the_file() {
        let frames = [(0, vec![1; 300]), (2, Vec::new()), (1, vec![2; 5]), (2, vec![3; 70])];
        let bytes = written(&frames);
        let mut file = tempfile::tempfile().expect("room");
        file.write_all(&bytes).expect("room");
        let digest = ChecksummedFrames::scan(&file).expect("a file").digest;
        for step in [1, 7, HEADER, 100, bytes.len()] {
            assert_eq!(hashed(&bytes, step), Some(digest), "by {step}");
        }
        assert_eq!(hashed(&[], 1), Some(blake3::hash(&[])));
    }

    #[test]
    fn a_byte_that_is_another_or_missing_is_found() {
        let bytes = written(&[(0, vec![1; 300]), (1, vec![2; 5])]);
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 1;
            assert_eq!(hashed(&spoilt, 50), None, "byte {at}");
            let is_between = at == 0 || at == HEADER + 300;
            assert_eq!(hashed(&bytes[..at], 50).is_some(), is_between, "cut at {at}");
        }
    }
}
