//! [`ShardList`]: which shards are whole, a line each, in the work folder.
//!
//! Apart from the word of which job was started, which names all inputs: a job may have as many shards as inputs.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::manifest::File;
use crate::error::{Error, Result};

/// The name of the file.
const SHARDS: &str = "shards";

/// The file that lists the shards that are whole.
///
/// A shard is on the disk before its line is written, so a line that a loss of power takes costs only the work.
pub(super) struct ShardList(PathBuf);

impl ShardList {
    /// That in the folder `work`.
    pub(super) fn of(work: &Path) -> Self {
        Self(work.join(SHARDS))
    }

    /// The shards in their order, as far as lines are whole.
    pub(super) fn read(&self) -> Result<Vec<File>> {
        let bytes = match fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(&*self.0)(error)),
        };
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let whole = lines.map_while(|line| serde_json::from_slice(line.strip_suffix(b"\n")?).ok());
        Ok(whole.collect())
    }

    /// Lists these shards and no others.
    pub(super) fn write(&self, files: &[File]) -> Result<()> {
        let lines: Vec<u8> = files.iter().flat_map(line).collect();
        fs::write(&self.0, lines).map_err(Error::io(&*self.0))
    }

    /// Lists one more.
    pub(super) fn add(&self, file: &File) -> Result<()> {
        let opened = fs::OpenOptions::new().create(true).append(true).open(&self.0);
        opened.and_then(|mut list| list.write_all(&line(file))).map_err(Error::io(&*self.0))
    }

    /// Has the disk keep the list.
    pub(super) fn sync(&self) -> Result<()> {
        match fs::File::open(&self.0) {
            Ok(list) => list.sync_all().map_err(Error::io(&*self.0)),
            // A job may have no shards.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io(&*self.0)(error)),
        }
    }
}

fn line(file: &File) -> Vec<u8> {
    let mut line = serde_json::to_vec(file).expect("strings and numbers become JSON");
    line.push(b'\n');
    line
}
