//! [`ExpectedHash`]: the hash that a manifest lists of a file, compared with the bytes that are used of the file.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::util::disk::checksummed_frames::FramesHasher;

/// The hash that a manifest lists of a file, compared with the bytes that are used of the file.
#[derive(Debug)]
pub(crate) struct ExpectedHash<'a> {
    /// The hash, in hexadecimal.
    blake3: &'a str,
    hasher: FileHasher,
}

#[derive(Debug)]
enum FileHasher {
    /// The hash of all bytes.
    Bytes(Box<blake3::Hasher>),
    /// The hash of the headers of frames.
    Frames(FramesHasher),
}

impl<'a> ExpectedHash<'a> {
    /// The hash of a file's bytes.
    pub(crate) fn of_bytes(blake3: &'a str) -> Self {
        Self { blake3, hasher: FileHasher::Bytes(Box::default()) }
    }

    /// The hash of the headers of a file's frames.
    pub(crate) fn of_frames(blake3: &'a str) -> Self {
        Self { blake3, hasher: FileHasher::Frames(FramesHasher::default()) }
    }

    /// The same hash, before any bytes.
    pub(crate) fn afresh(&self) -> Self {
        match self.hasher {
            FileHasher::Bytes(_) => Self::of_bytes(self.blake3),
            FileHasher::Frames(_) => Self::of_frames(self.blake3),
        }
    }

    /// Takes the next bytes of the file.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.hasher {
            FileHasher::Bytes(hasher) => {
                hasher.update(bytes);
            }
            FileHasher::Frames(hasher) => hasher.update(bytes),
        }
    }

    /// True if the bytes so far have the hash of the written file.
    pub(crate) fn is_it(&self) -> bool {
        let found = match &self.hasher {
            FileHasher::Bytes(hasher) => Some(hasher.finalize()),
            FileHasher::Frames(hasher) => hasher.finalize(),
        };
        found.is_some_and(|found| found.to_hex().as_str() == self.blake3)
    }

    /// Fails with [`Error::Io`] if the bytes so far are not those of the file at `path` when it was written.
    pub(crate) fn refuse_other(&self, path: &Path) -> Result<()> {
        if self.is_it() {
            return Ok(());
        }
        let reason = "has changed since it was written; remove it, and run again";
        Err(Error::io(path)(io::Error::new(ErrorKind::InvalidData, reason)))
    }
}

impl Write for ExpectedHash<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
