//! [`Found`]: the files of the inputs of a run, with their sizes and times when they were found.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use fastpack_tokenize::regular;

use super::format::{self, Format};
use crate::config::Source;
use crate::control::Control;
use crate::error::{Error, Result};

/// A file to read, with its size and time when it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path.
    pub path: Arc<Path>,
    /// The container and compression.
    pub format: Format,
    /// The index of its source in [`Found::sources`].
    pub source: usize,
    /// Its size in bytes.
    pub size: u64,
    /// The time of the last change, in nanoseconds since 1970; 0 where the system does not tell.
    pub modified: u128,
}

impl SourceFile {
    pub(super) fn open(path: PathBuf, source: usize, control: &Control) -> Result<Self> {
        regular::check(&path).map_err(Error::io(&path))?;
        let metadata = path.metadata().map_err(Error::io(&path))?;
        let path = Arc::from(path);
        Ok(Self {
            format: format::recognise(&path, control)?,
            path,
            source,
            size: metadata.len(),
            modified: modified(&metadata),
        })
    }

    /// Fails with [`Error::Changed`] if the size or the time of the file has changed since.
    pub(crate) fn unchanged(&self) -> Result<()> {
        let same = self.path.metadata().is_ok_and(|metadata| {
            metadata.len() == self.size && modified(&metadata) == self.modified
        });
        if same { Ok(()) } else { Err(Error::Changed(self.path.to_path_buf())) }
    }
}

/// The time of the last change of a file, in nanoseconds since 1970; 0 where the system does not tell.
fn modified(metadata: &Metadata) -> u128 {
    let time = metadata.modified().ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos())
}

/// The files and sources of the inputs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The `Reading` of each source.
    pub sources: Vec<Source>,
    /// The files to read: those of the first source first, in order.
    pub files: Vec<SourceFile>,
    /// Files of a folder in formats that fastpack does not read, for the report.
    pub passed_over: Vec<PathBuf>,
}

impl Found {
    /// The bytes of all files, counted once for each reading.
    pub fn bytes(&self) -> u64 {
        self.bytes_of(&self.files)
    }

    /// The bytes of the files of a source, once.
    pub(crate) fn bytes_of_source(&self, source: usize) -> u64 {
        let files = self.files.iter().filter(|file| file.source == source);
        files.map(|file| file.size).fold(0, u64::saturating_add)
    }

    /// The bytes of some of the files, counted once for each reading.
    pub fn bytes_of<'a>(&self, files: impl IntoIterator<Item = &'a SourceFile>) -> u64 {
        let bytes = files
            .into_iter()
            .map(|file| file.size.saturating_mul(self.sources[file.source].repeat.get()));
        bytes.fold(0, u64::saturating_add)
    }
}
