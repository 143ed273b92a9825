//! [`DiskFile`]: a file that is written from its beginning to its end, and to the disk meanwhile.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::path::Path;

use crate::util::disk::regular;
use crate::util::disk::writeback::{CachePolicy, Writeback};

/// Buffers of one write: the most that systems take at a time.
const BUFFERS: usize = 1024;

/// Bytes that a disk takes in some hundredths of a second.
const LARGE: u64 = 16 << 20;

/// A file that is written from its beginning to its end, and to the disk meanwhile.
pub(super) struct DiskFile {
    file: File,
    bytes: u64,
    writeback: Writeback,
}

impl DiskFile {
    /// Creates the file at `path`, where there must be none.
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        regular::create(path).map(Self::of)
    }

    pub(super) fn of(file: File) -> Self {
        Self { file, bytes: 0, writeback: Writeback::new(0, CachePolicy::Release) }
    }

    /// Writes buffers, one behind the other.
    pub(super) fn append<'a>(&mut self, buffers: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut buffers = buffers.filter(|buffer| !buffer.is_empty()).map(IoSlice::new).peekable();
        while buffers.peek().is_some() {
            let mut some: Vec<IoSlice<'_>> = buffers.by_ref().take(BUFFERS).collect();
            self.write_all(&mut some)?;
        }
        self.writeback.wrote(&self.file, self.bytes)
    }

    fn write_all(&mut self, mut buffers: &mut [IoSlice<'_>]) -> io::Result<()> {
        while !buffers.is_empty() {
            match self.file.write_vectored(buffers) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.bytes += written as u64;
                    IoSlice::advance_slices(&mut buffers, written);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// True if so much was written that the end may wait long for the disk.
    pub(super) fn is_large(&self) -> bool {
        self.bytes > LARGE
    }

    /// Counts bytes as written that are not.
    #[cfg(test)]
    pub(super) fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Overwrites the first bytes.
    pub(super) fn overwrite(&mut self, head: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(head)?;
        self.file.seek(SeekFrom::End(0)).map(drop)
    }

    /// Syncs the file, so that it survives a loss of power. Returns its number of bytes.
    pub(super) fn sync(mut self) -> io::Result<u64> {
        self.writeback.finish()?;
        self.file.sync_all()?;
        Ok(self.bytes)
    }
}
