//! [`Inputs`] and [`Source`]: the files or records of a run, their limits and repeats.

use std::num::NonZeroU64;
use std::path::PathBuf;

use super::reading::Reading;
use crate::config::storage::StorageOptions;
use crate::error::Result;

/// Files that are read with the same options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Files, folders, globs and brace lists, in the order given.
    pub patterns: Vec<PathBuf>,
    /// The options by which their records are read.
    pub reading: Reading,
    /// The most records that are read, counted over all files; all by default.
    pub limit: Option<NonZeroU64>,
    /// The number of times that the records are read.
    pub repeat: NonZeroU64,
    /// The records, if the caller gives them and no files are read.
    pub records: Option<RecordSource>,
}

/// Records that the caller gives anew for each epoch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSource {
    /// The name in errors and reports.
    pub name: String,
    /// The identity of the records, where the caller knows it.
    pub known_as: Option<String>,
    /// The name of the function or class, or the description of the data set.
    pub kind: String,
}

impl Source {
    /// All records of these files, once.
    pub fn of(patterns: Vec<PathBuf>, reading: Reading) -> Self {
        Self { patterns, reading, limit: None, repeat: NonZeroU64::MIN, records: None }
    }

    /// Checks the rules between options.
    pub fn validate(&self) -> Result<()> {
        self.reading.validate()
    }
}

/// The inputs of a run, before files are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The sources, in the order in which they are read.
    pub sources: Vec<Source>,
    /// True if folders inside a folder are read too.
    pub recursive: bool,
    /// The options of remote storage.
    pub storage: StorageOptions,
}
