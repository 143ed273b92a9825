//! [`FoundFiles`]: the files of the inputs of a run, with their sizes and times when they were found.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastpack_tokenize::loading::regular;
use serde::{Deserialize, Serialize};

use crate::config::Source;
use crate::error::{Error, Result};
use crate::source::formats::format;
use crate::source::formats::format::{Container, InputFormat};
use crate::storage::Location;
use crate::util::control::Control;

/// A file to read, with its size and time when it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path, or the URL without user and query.
    pub path: Arc<Path>,
    /// The place of its bytes.
    pub(crate) location: Location,
    /// The container and compression.
    pub format: InputFormat,
    /// The index of its source in [`FoundFiles::sources`].
    pub source: usize,
    /// Its size in bytes.
    pub size: u64,
    /// The time of the last change, in nanoseconds since 1970; 0 where the system does not tell.
    pub modified: u64,
    /// The etag, where a store gives one.
    pub etag: Option<Arc<str>>,
    /// The lines that are read, if not all of the file is.
    pub(crate) lines: Option<LineRange>,
}

/// Whole lines of an uncompressed line file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineRange {
    /// Their bytes.
    pub(crate) bytes: Range<u64>,
    /// The number of the first, from 1.
    pub(crate) first: u64,
}

impl SourceFile {
    /// Begins to fetch its first bytes, if it lies in remote storage; of a Parquet file its end.
    pub(in crate::source) fn prefetch(&self) {
        self.location.prefetch(self.format.container == Container::Parquet);
    }

    pub(crate) fn open(location: Location, source: usize, control: &Control) -> Result<Self> {
        let path = Arc::clone(location.name());
        if !location.is_remote() {
            regular::check(&path).map_err(Error::io(&*path))?;
        }
        let stat = location.stat().map_err(Error::io(&*path))?;
        Ok(Self {
            format: format::recognise(&location, control)?,
            path,
            location,
            source,
            size: stat.size,
            modified: stat.modified,
            etag: stat.etag,
            lines: None,
        })
    }

    /// Records of a source that the caller gives in place of files.
    pub(crate) fn of_records(name: &str, source: usize) -> Self {
        let path: Arc<Path> = Arc::from(Path::new(&format!("<{name}>")));
        Self {
            format: InputFormat { container: Container::Records, compression: None },
            location: Location::from(&*path),
            path,
            source,
            size: 0,
            modified: 0,
            etag: None,
            lines: None,
        }
    }

    /// The bytes that are read of it.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.lines.as_ref().map_or(self.size, |lines| lines.bytes.end - lines.bytes.start)
    }

    /// True if it is a file, and not records that the caller gives.
    pub(crate) fn is_file(&self) -> bool {
        self.format.container != Container::Records
    }

    /// Fails with [`Error::Changed`] if the size or the time of the file has changed since, and with its first failure if
    /// a request for an object has failed.
    pub(crate) fn unchanged(&self) -> Result<()> {
        self.location.check().map_err(Error::io(&*self.path))?;
        let same = self
            .location
            .stat()
            .is_ok_and(|stat| stat.size == self.size && stat.modified == self.modified);
        if same { Ok(()) } else { Err(Error::Changed(self.path.to_path_buf())) }
    }

    /// True if a later run can tell that the file is the same: its size and its etag or time are known.
    pub(crate) fn is_identified(&self) -> bool {
        self.etag.is_some() || self.modified > 0 || !self.location.is_remote()
    }
}

/// The part of a file that holds wanted records. Of a source that is read as a whole, its first file has the part of
/// all its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FilePart {
    /// The bytes that hold the records: whole lines of a line file, otherwise all bytes.
    pub(crate) bytes: Range<u64>,
    /// The numbers of the records in the file, from 0.
    pub(crate) records: Range<u64>,
}

impl FilePart {
    pub(crate) fn whole(file: &SourceFile) -> Self {
        Self { bytes: 0..file.size, records: 0..u64::MAX }
    }

    /// True if the file has no wanted record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The number of its bytes.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}

/// The files and sources of the inputs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFiles {
    /// The `Reading` of each source.
    pub sources: Vec<Source>,
    /// The files to read: those of the first source first, in order.
    pub files: Vec<SourceFile>,
    /// Files of a folder in formats that fastpack does not read, for the report.
    pub passed_over: Vec<PathBuf>,
}

impl FoundFiles {
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
            .map(|file| file.bytes_read().saturating_mul(self.sources[file.source].repeat.get()));
        bytes.fold(0, u64::saturating_add)
    }
}

/// The number of files whose first bytes are fetched while the one before them is read, if they lie in remote storage.
const FILES_AHEAD: usize = 3;

/// The next files after one, with their numbers: those that are fetched while it is read.
pub(in crate::source) fn files_ahead(
    files: &[SourceFile],
    at: usize,
) -> impl Iterator<Item = (usize, &SourceFile)> {
    files.iter().enumerate().skip(at + 1).take(FILES_AHEAD)
}

/// The place among files that are read in order, each source as often as it is repeated.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::source) struct FilePlace {
    /// The number of the file.
    pub(in crate::source) at: usize,
    /// The number of earlier reads of its source.
    pub(in crate::source) times: u64,
}

impl FilePlace {
    /// Goes to the next file of the source, to its first again, or to the next source. Returns the source if a reading of it begins.
    pub(in crate::source) fn advance(
        &mut self,
        files: &[SourceFile],
        sources: &[Source],
    ) -> Option<usize> {
        let source = files[self.at].source;
        self.at += 1;
        if files.get(self.at).is_some_and(|next| next.source == source) {
            return None;
        }
        self.times += 1;
        if self.times < sources[source].repeat.get() {
            self.at = files.partition_point(|file| file.source < source);
            return Some(source);
        }
        self.times = 0;
        Some(source + 1)
    }
}

/// The error itself, or [`Error::Changed`] if its file among `files` changed while it was read.
pub(in crate::source) fn blame(files: &[SourceFile], error: Error) -> Error {
    let Error::Record { origin, .. } = &error else { return error };
    let file = files.iter().find(|file| file.path == origin.path);
    file.and_then(|file| file.unchanged().err()).unwrap_or(error)
}

/// The deepest folder that contains all of these files.
pub(crate) fn shared_folder<'a>(files: impl IntoIterator<Item = &'a Path>) -> &'a Path {
    let mut files = files.into_iter();
    let parent = |file: &'a Path| file.parent().unwrap_or(Path::new(""));
    let first = files.next().map_or(Path::new(""), parent);
    files.fold(first, |mut shared, file| {
        while !file.starts_with(shared) {
            shared = parent(shared);
        }
        shared
    })
}
