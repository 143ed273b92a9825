//! [`DiskFile`]: a file that is written from its beginning to its end, and to the disk meanwhile.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::util::disk::regular;
use crate::util::disk::writeback::{CachePolicy, Writeback};
use crate::util::free_memory;

/// Buffers of one write: the most that systems take at a time.
const BUFFERS: usize = 1024;

/// Bytes that a disk takes in some hundredths of a second.
const LARGE: u64 = 16 << 20;

/// The bytes that the files of a job may leave in the system's cache. They are read again before they get their names, and a disk gives
/// them no faster than it takes them.
pub(super) struct CachedBytes(AtomicU64);

impl CachedBytes {
    /// A quarter of the memory that is left.
    pub(super) fn of_free_memory() -> Self {
        Self(AtomicU64::new(free_memory::left().unwrap_or(0) / 4))
    }

    /// Counts bytes that are written; false if they are too many to stay.
    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// A file that is written from its beginning to its end, and to the disk meanwhile.
pub(super) struct DiskFile {
    file: File,
    bytes: u64,
    writeback: Writeback,
    cached: Arc<CachedBytes>,
}

impl DiskFile {
    /// Creates the file at `path`, where there must be none.
    pub(super) fn begin(path: &Path, cached: &Arc<CachedBytes>) -> io::Result<Self> {
        regular::create(path).map(|file| Self::of(file, cached))
    }

    pub(super) fn of(file: File, cached: &Arc<CachedBytes>) -> Self {
        let writeback = Writeback::new(0, CachePolicy::Keep);
        Self { file, bytes: 0, writeback, cached: Arc::clone(cached) }
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
                    if !self.cached.take(written as u64) {
                        self.writeback.cache_policy = CachePolicy::Release;
                    }
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
