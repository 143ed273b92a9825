//! [`InputBytes`]: the bytes of one file, decompressed by a background thread if needed.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::background::Background;
use super::compression::Compression;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::storage::{Location, OpenFile};

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
    Plain(OpenFile),
    Decompressed { chunks: Background<Chunk>, chunk: Vec<u8>, taken: usize },
}

/// A decompressed part of the file, and its end in the file.
type Chunk = (io::Result<Vec<u8>>, u64);

impl InputBytes {
    pub(super) fn open(location: &Location, compression: Option<Compression>) -> Result<Self> {
        let path = location.name();
        let file = location.open().map_err(Error::io(&**path))?;
        let bytes = match compression {
            None => ByteSource::Plain(file),
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

    /// The bytes of the file that were used.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The reason that the bytes ended before the file did, with the offset in the file; returned once.
    pub(super) fn take_damage(&mut self) -> Option<String> {
        self.damage.take()
    }

    /// Whether the bytes ended before the file did.
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
            let step = STEP_BYTES.min(wanted - filled);
            bytes.reserve(step);
            let read = self.by_ref().take(step as u64).read_to_end(bytes);
            let read = read.map_err(Error::io(&*path))?;
            filled += read;
            if read < step {
                break;
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
            ByteSource::Decompressed { chunks, chunk, taken } => (chunks, chunk, taken),
        };
        while *taken == chunk.len() {
            match chunks.next() {
                None => return Ok(0),
                Some((Ok(next), position)) => {
                    (*chunk, *taken, self.position) = (next, 0, position);
                }
                Some((Err(error), _))
                    if error.raw_os_error().is_some() || self.location.check().is_err() =>
                {
                    return Err(self.location.check().err().unwrap_or(error));
                }
                Some((Err(error), position)) => {
                    self.position = position;
                    self.damage = Some(format!("at byte {position} of the file: {error}"));
                    return Ok(0);
                }
            }
        }
        let read = (&chunk[*taken..]).read(buffer)?;
        *taken += read;
        Ok(read)
    }
}

/// Decompresses `file` on a background thread. A failure is the last chunk.
fn decompress(file: OpenFile, compression: Compression) -> io::Result<Background<Chunk>> {
    let offset = Arc::new(AtomicU64::new(0));
    let mut decoder = compression.decoder(file, Arc::clone(&offset))?;
    let mut ended = false;
    let mut failure = None;
    Background::start(CHUNKS_AHEAD, move || {
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
