//! [`LocalFile`]: a file of the local disk, up to the size that it had when it was opened, and [`SharedFile`], for several threads.
//!
//! A program may append to a file as fast as it is read: without this end, reading it would have none.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fastpack_tokenize::loading::regular;

use super::checksummed_frames::read_at;
use super::retry::retry;
use crate::error::{Error, Result};

/// A file of the local disk, up to the size that it had when it was opened.
#[derive(Debug)]
pub(crate) struct LocalFile {
    file: File,
    opened: FileVersion,
    at: u64,
}

/// The size and the time of the last change of a file. The size is 0 for files without one, such as `/proc/meminfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    size: u64,
    /// `None` where the system does not tell it.
    modified: Option<SystemTime>,
}

impl FileVersion {
    /// The size and the time of an open file, now.
    fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self { size: found.len(), modified: found.modified().ok() })
    }
}

/// A file of the local disk that several threads read, each at places of its own.
#[derive(Debug)]
pub(crate) struct SharedFile {
    file: File,
    path: Arc<Path>,
    opened: FileVersion,
}

impl LocalFile {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        retry(|| {
            let file = regular::open(path)?;
            let opened = FileVersion::of(&file)?;
            Ok(Self { file, opened, at: 0 })
        })
    }

    /// The file, which lies at `path`, to be read by other threads too; `None` for files without a size, and where reading at a
    /// place moves the place of the next read.
    pub(crate) fn share(&self, path: &Arc<Path>) -> io::Result<Option<SharedFile>> {
        if self.opened.size == 0 || cfg!(windows) {
            return Ok(None);
        }
        let (file, path) = (self.file.try_clone()?, Arc::clone(path));
        Ok(Some(SharedFile { file, path, opened: self.opened }))
    }

    /// The bytes before the end, as far as the system tells it.
    fn left(&self) -> io::Result<u64> {
        if self.opened.size == 0 && self.file.metadata()?.len() == 0 {
            return Ok(u64::MAX);
        }
        Ok(self.opened.size.saturating_sub(self.at))
    }
}

impl SharedFile {
    /// Its size when it was opened.
    pub(crate) fn size(&self) -> u64 {
        self.opened.size
    }

    /// Fills a buffer from a place in the file on.
    ///
    /// # Errors
    ///
    /// [`Error::Changed`] if its size or time are no longer those that it had when it was opened.
    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        let read = retry(|| read_at(&self.file, bytes, at));
        let now = FileVersion::of(&self.file).map_err(Error::io(&*self.path))?;
        if now != self.opened {
            return Err(Error::Changed(self.path.to_path_buf()));
        }
        read.map_err(Error::io(&*self.path))
    }
}

impl Read for LocalFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left()?).unwrap_or(usize::MAX).min(buffer.len());
        let read = retry(|| self.file.read(&mut buffer[..most]))?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for LocalFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::End(by) => {
                let before =
                    || io::Error::new(io::ErrorKind::InvalidInput, "a place before the file");
                SeekFrom::Start(self.opened.size.checked_add_signed(by).ok_or_else(before)?)
            }
            to => to,
        };
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_grows_ends_where_it_ended_when_it_was_opened() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("growing");
        for first in ["", "12345"] {
            std::fs::write(&path, first).expect("the file");
            let mut open = LocalFile::open(&path).expect("the file is there");
            let mut end = File::options().append(true).open(&path).expect("the file is there");
            let mut read = Vec::new();
            let mut piece = [0; 2];
            loop {
                end.write_all(b"more").expect("there is room");
                match open.read(&mut piece).expect("it is read") {
                    0 => break,
                    count => read.extend_from_slice(&piece[..count]),
                }
                assert!(read.len() < 50, "it has no end");
            }
            assert_eq!(read, first.as_bytes());
            assert_eq!(open.seek(SeekFrom::End(0)).expect("a place"), first.len() as u64);
        }
    }
}
