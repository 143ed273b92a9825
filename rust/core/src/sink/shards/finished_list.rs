//! [`FinishedList`]: the list of finished shards in the work folder, one line for each.
//!
//! It is separate from the record of the started job, which names all inputs: a job may have as many shards
//! as inputs.

use std::fs::File as Handle;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::sink::file_names::{SHARDS, SHARDS_NEW};
use crate::sink::folder::lock::WorkFiles;
use crate::sink::manifest::WrittenShard;
use crate::sink::shards::finished_list_lines::line;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;

/// The file that lists the finished shards.
///
/// A shard is on the disk before its line is written. Before a shard of a split is begun, either all earlier ones have lines on the
/// disk, or its number is recorded by [`begun_shards`](super::begun_shards): unlisted shards of a killed run are known by that. The
/// hash of a line covers all lines before it and the job: a line that was changed, added, lost or moved ends the list.
#[derive(Debug)]
pub(crate) struct FinishedList {
    path: PathBuf,
    /// The open file, after the first line was written.
    file: Option<Handle>,
    /// The hash of the last line, or of the job.
    last: blake3::Hash,
}

impl FinishedList {
    /// A list for the job called `job`, in the folder `work`, where there is none yet.
    pub(crate) fn new(work: &Path, job: &str) -> Self {
        Self { path: work.join(SHARDS), file: None, last: blake3::hash(job.as_bytes()) }
    }

    /// The shards that the folder `work` lists for the job called `job`, in order, up to the first invalid
    /// line.
    pub(crate) fn read(work: &Path, job: &str) -> Result<Vec<WrittenShard>> {
        let Self { path, mut last, .. } = Self::new(work, job);
        let mut text = Vec::new();
        let read =
            regular::open(&path, Links::Refused).and_then(|mut it| it.read_to_end(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(path)(error)),
        }
        let mut files = Vec::new();
        for text in text.split_inclusive(|&byte| byte == b'\n') {
            // The line must be exactly the one that is written for this shard.
            let Ok(file) = serde_json::from_slice(text) else { break };
            let (expected, hash) = line(&file, &last);
            if text != expected {
                break;
            }
            files.push(file);
            last = hash;
        }
        Ok(files)
    }

    /// Replaces the list by these shards.
    pub(crate) fn write(
        &mut self,
        job: &str,
        files: &[WrittenShard],
        work: &WorkFiles<'_>,
    ) -> Result<()> {
        let mut last = blake3::hash(job.as_bytes());
        let mut text = Vec::new();
        for file in files {
            let (line, hash) = line(file, &last);
            text.extend(line);
            last = hash;
        }
        let new = self.path.with_file_name(SHARDS_NEW);
        let begun = regular::create(&new).and_then(|mut list| {
            list.write_all(&text)?;
            Ok(list)
        });
        let begun = begun.map_err(Error::io(&*self.path))?;
        work.rename_into(&new, SHARDS)?;
        self.file = Some(begun);
        self.last = last;
        Ok(())
    }

    /// Adds a shard to the list.
    pub(crate) fn add(&mut self, file: &WrittenShard) -> Result<()> {
        let (line, last) = line(file, &self.last);
        let opened = match &mut self.file {
            Some(opened) => opened,
            none => none.insert(regular::create(&self.path).map_err(Error::io(&*self.path))?),
        };
        opened.write_all(&line).map_err(Error::io(&*self.path))?;
        self.last = last;
        Ok(())
    }

    /// Syncs the list to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        // A job without shards has no file.
        self.file.as_ref().map_or(Ok(()), |list| list.sync_all().map_err(Error::io(&*self.path)))
    }
}
