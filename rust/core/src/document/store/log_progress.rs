//! [`LogProgress`]: how far the job of a log has come.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::entry;
use crate::error::{Error, Result};
use crate::util::disk::checksummed_frames::{ChecksummedFrames, read_at};
use crate::util::disk::regular;
use crate::util::disk::regular::Links;

/// The part of a job whose blocks are in its log. It is read from the heads of the blocks, while a run may write others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogProgress {
    /// The documents that were read.
    pub documents: u64,
    /// The input file of the last block, if there is a block.
    pub file: Option<PathBuf>,
    /// The blocks of that file.
    pub blocks_of_file: u64,
}

impl LogProgress {
    /// The progress of the log at `path`; nothing if there is no log.
    pub fn read(path: &Path) -> Result<Self> {
        let file = match regular::open(path, Links::Refused) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            opened => opened.map_err(Error::io(path))?,
        };
        Self::of(&file).map_err(Error::io(path))
    }

    fn of(file: &File) -> io::Result<Self> {
        let mut progress = Self::default();
        for frame in ChecksummedFrames::scan(file)?.found.into_values() {
            let read = |bytes: &mut [u8], offset: u64| read_at(file, bytes, frame.start + offset);
            let Some((path, documents)) = entry::read_head(&read)? else { break };
            if progress.file.as_deref() != Some(&path) {
                (progress.file, progress.blocks_of_file) = (Some(path), 0);
            }
            progress.documents += documents;
            progress.blocks_of_file += 1;
        }
        Ok(progress)
    }
}
