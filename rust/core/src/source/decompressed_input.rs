//! [`InputBytes`]: the bytes of one file, decompressed by a background thread if needed.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::background::BackgroundIterator;
use super::compression::Compression;
use crate::error::{Error, Result};
use crate::storage::{Location, OpenFile};
use crate::util::control::Control;
use crate::util::disk::local_file::SharedFile;

/// Bytes that are read between two checks of the cancel flag: some milliseconds of a disk.
const STEP_BYTES: usize = 4 << 20;

/// Bytes that are decompressed at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Chunks that are decompressed in advance: enough that no thread waits for a slow stretch.
const CHUNKS_AHEAD: usize = 8;

/// The bytes of one file.
#[derive(Debug)]
pub(super) struct InputBytes {
    location: Location,
    bytes: ByteSource,
    /// The bytes that were read but not taken.
    peeked: Vec<u8>,
    /// The bytes of the file that were used.
    position: u64,
    damage: Option<String>,
}

#[derive(Debug)]
enum ByteSource {
    Plain(Take<OpenFile>),
    Decompressed {
        chunks: BackgroundIterator<DecodedChunk>,
        chunk: Vec<u8>,
        taken: usize,
    },
    /// Decompressed by the reader, which counts the bytes of the file that it used.
    Stretch(DecodedReader),
}

/// A reader of decompressed bytes, and the bytes of the file that it used.
struct DecodedReader(Box<dyn Read + Send>, Arc<AtomicU64>);

impl fmt::Debug for DecodedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stretch").field(&self.1).finish()
    }
}

/// A decompressed part of the file, and its end in the file.
type DecodedChunk = (io::Result<Vec<u8>>, u64);

impl InputBytes {
    pub(super) fn open(location: &Location, compression: Option<Compression>) -> Result<Self> {
        let path = location.name();
        let file = location.open().map_err(Error::io(&**path))?;
        let bytes = match compression {
            None => ByteSource::Plain(file.take(u64::MAX)),
            Some(compression) => {
                let chunks = decompress(file, compression).map_err(Error::io(&**path))?;
                ByteSource::Decompressed { chunks, chunk: Vec::new(), taken: 0 }
            }
        };
        Ok(Self {
            location: location.clone(),
            bytes,
            peeked: Vec::new(),
            position: 0,
            damage: None,
        })
    }

    /// The bytes of a file from the beginning of a range on, which are not decompressed. No more than the range is fetched.
    pub(super) fn of_range(location: &Location, range: Range<u64>) -> Result<Self> {
        let path = location.name();
        let start = SeekFrom::Start(range.start);
        let mut file = location.open_range(range).map_err(Error::io(&**path))?;
        file.seek(start).map_err(Error::io(&**path))?;
        Ok(Self {
            location: location.clone(),
            bytes: ByteSource::Plain(file.take(u64::MAX)),
            peeked: Vec::new(),
            position: 0,
            damage: None,
        })
    }

    /// The bytes of a range of a file, and none behind it, which are not decompressed.
    pub(super) fn within(location: &Location, range: Range<u64>) -> Result<Self> {
        let most = range.end - range.start;
        let mut input = Self::of_range(location, range)?;
        if let ByteSource::Plain(file) = &mut input.bytes {
            file.set_limit(most);
        }
        Ok(input)
    }

    /// The bytes that a reader of a part of the file gives. `offset` follows the bytes of the file that it used.
    pub(super) fn of(
        location: &Location,
        reader: Box<dyn Read + Send>,
        offset: Arc<AtomicU64>,
    ) -> Self {
        Self {
            location: location.clone(),
            bytes: ByteSource::Stretch(DecodedReader(reader, offset)),
            peeked: Vec::new(),
            position: 0,
            damage: None,
        }
    }

    /// The name of the file.
    pub(super) fn path(&self) -> &Arc<Path> {
        self.location.name()
    }

    /// The file, to be read by other threads, if it lies on the local disk and is not compressed.
    pub(super) fn shared_file(&self) -> Result<Option<SharedFile>> {
        let ByteSource::Plain(file) = &self.bytes else { return Ok(None) };
        let OpenFile::Local(file) = file.get_ref() else { return Ok(None) };
        file.share(self.path()).map_err(Error::io(&**self.path()))
    }

    /// True if bytes were read and not taken.
    pub(super) fn is_peeked(&self) -> bool {
        !self.peeked.is_empty()
    }

    /// Passes over bytes of a file that is not compressed.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<()> {
        if let ByteSource::Plain(file) = &mut self.bytes {
            let to = i64::try_from(bytes).expect("a block of bytes");
            file.get_mut()
                .seek(SeekFrom::Current(to))
                .map_err(Error::io(&**self.location.name()))?;
            self.position += bytes;
        }
        Ok(())
    }

    /// The bytes of the file that were used.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The reason that the bytes ended before the file did, with the offset in the file; returned once.
    pub(super) fn take_damage(&mut self) -> Option<String> {
        self.damage.take()
    }

    /// True if the bytes ended before the file did.
    pub(super) fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// Appends `wanted` bytes to `bytes`; fewer only at the end of what can be read.
    pub(super) fn fill(
        &mut self,
        bytes: &mut Vec<u8>,
        wanted: usize,
        control: &Control,
    ) -> Result<usize> {
        let path = Arc::clone(self.location.name());
        let mut filled = 0;
        while filled < wanted {
            control.tick()?;
            let (step, before) = (STEP_BYTES.min(wanted - filled), bytes.len());
            // `Read::read_to_end` takes six calls for a block. Here it is one.
            bytes.resize(before + step, 0);
            let read = self.read_up_to(&mut bytes[before..]);
            bytes.truncate(before + read.as_ref().copied().unwrap_or(0));
            let read = read.map_err(Error::io(&*path))?;
            filled += read;
            if read < step {
                break;
            }
        }
        Ok(filled)
    }

    /// Fills a buffer. Returns the number of bytes, fewer only at the end of what can be read.
    fn read_up_to(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// The first bytes, at most `wanted`. They remain to be read.
    pub(super) fn peek(&mut self, wanted: usize, control: &Control) -> Result<&[u8]> {
        let mut bytes = Vec::new();
        self.fill(&mut bytes, wanted, control)?;
        self.peeked = bytes;
        Ok(&self.peeked)
    }
}

impl InputBytes {
    /// Ends the bytes at a failure: of the file itself, or of its decompression, which is damage.
    fn failed(&mut self, error: io::Error) -> io::Result<usize> {
        let failure = self.location.check().err();
        if failure.is_some() || error.raw_os_error().is_some() {
            return Err(failure.unwrap_or(error));
        }
        let position = self.position;
        self.damage = Some(format!("at byte {position} of the file: {error}"));
        Ok(0)
    }
}

impl Read for InputBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.peeked.is_empty() {
            let read = self.peeked.as_slice().read(buffer)?;
            self.peeked.drain(..read);
            return Ok(read);
        }
        let (chunks, chunk, taken) = match &mut self.bytes {
            ByteSource::Plain(file) => {
                let read = file.read(buffer)?;
                self.position += read as u64;
                return Ok(read);
            }
            ByteSource::Stretch(DecodedReader(reader, offset)) => {
                let read = reader.read(buffer);
                self.position = offset.load(Ordering::Relaxed);
                return match read {
                    Ok(read) => Ok(read),
                    Err(error) => self.failed(error),
                };
            }
            ByteSource::Decompressed { chunks, chunk, taken } => (chunks, chunk, taken),
        };
        while *taken == chunk.len() {
            match chunks.next() {
                None => return Ok(0),
                Some((Ok(next), position)) => {
                    (*chunk, *taken, self.position) = (next, 0, position);
                }
                Some((Err(error), position)) => {
                    self.position = position;
                    return self.failed(error);
                }
            }
        }
        let read = (&chunk[*taken..]).read(buffer)?;
        *taken += read;
        Ok(read)
    }
}

/// Decompresses `file` on a background thread. A failure is the last chunk.
fn decompress(
    file: OpenFile,
    compression: Compression,
) -> io::Result<BackgroundIterator<DecodedChunk>> {
    let offset = Arc::new(AtomicU64::new(0));
    let mut decoder = compression.decoder(file, Arc::clone(&offset))?;
    let mut ended = false;
    let mut failure = None;
    BackgroundIterator::start(CHUNKS_AHEAD, move || {
        if ended {
            return None;
        }
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        if failure.is_none() {
            failure = decoder.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk).err();
        }
        let position = offset.load(Ordering::Relaxed);
        // Bytes that were read before a failure are data. The failure comes after them.
        if !chunk.is_empty() {
            return Some((Ok(chunk), position));
        }
        ended = true;
        failure.take().map(|error| (Err(error), position))
    })
}
