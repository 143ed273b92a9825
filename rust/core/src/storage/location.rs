//! [`Location`]: a file to read, on the local disk or in remote storage.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use fastpack_tokenize::loading::regular;

use super::fetching::in_order::{ObjectReader, ReadOrder, SCATTERED};
use super::fetching::object::Object;
use super::fetching::table_parts::{TableParts, TablePartsReader};
use super::object_stat::ObjectStat;
use crate::util::disk::local_file::LocalFile;
use crate::util::disk::retry::retry;

/// A file to read.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// A file of the local disk.
    Local(Arc<Path>),
    /// An object, and readers of it that have begun to fetch.
    Remote(Arc<Object>, Arc<Mutex<PrefetchedReaders>>),
}

/// Readers of an object that have begun to fetch before they are needed.
#[derive(Debug, Default)]
pub(crate) struct PrefetchedReaders {
    reader: Option<ObjectReader>,
    parts: Option<TableParts>,
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(one), Self::Local(other)) => one == other,
            (Self::Remote(one, _), Self::Remote(other, _)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Location {}

impl From<Arc<Object>> for Location {
    fn from(object: Arc<Object>) -> Self {
        Self::Remote(object, Arc::default())
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self::Local(Arc::from(path))
    }
}

impl Location {
    /// The path, or the URL without user and query.
    pub(crate) fn name(&self) -> &Arc<Path> {
        match self {
            Self::Local(path) => path,
            Self::Remote(object, _) => object.name(),
        }
    }

    /// Opens the file, to read it from its beginning to its end.
    pub(crate) fn open(&self) -> io::Result<OpenFile> {
        match self {
            Self::Local(path) => LocalFile::open(path).map(OpenFile::Local),
            Self::Remote(object, begun) => {
                let begun = begun.lock().unwrap_or_else(PoisonError::into_inner).reader.take();
                Ok(OpenFile::Remote(begun.unwrap_or_else(|| whole(object))))
            }
        }
    }

    /// A copy of the location whose next reader fetches the beginning alone, and the rest only on demand.
    #[must_use]
    pub(crate) fn for_its_start(&self) -> Self {
        match self {
            Self::Local(path) => Self::Local(Arc::clone(path)),
            Self::Remote(object, _) => {
                let reader = Some(ObjectReader::of_the_start(object));
                Self::Remote(
                    Arc::clone(object),
                    Arc::new(Mutex::new(PrefetchedReaders { reader, parts: None })),
                )
            }
        }
    }

    /// Opens the file, to read a range of it. It stands at the beginning of the file.
    pub(crate) fn open_range(&self, range: Range<u64>) -> io::Result<OpenFile> {
        self.open_for(ReadOrder::Range(range))
    }

    /// Opens the file, to read small stretches of it that lie apart: at `places` if they are known, in order.
    pub(crate) fn open_scattered(&self, places: impl Iterator<Item = u64>) -> io::Result<OpenFile> {
        self.open_stretches(places.map(|place| place..place + SCATTERED))
    }

    /// Opens the file, to read stretches of it that lie apart, in order.
    pub(crate) fn open_stretches(
        &self,
        stretches: impl Iterator<Item = Range<u64>>,
    ) -> io::Result<OpenFile> {
        let stretches = if self.is_remote() { stretches.collect() } else { VecDeque::new() };
        self.open_for(ReadOrder::Scattered(stretches))
    }

    fn open_for(&self, access: ReadOrder) -> io::Result<OpenFile> {
        match self {
            Self::Local(path) => LocalFile::open(path).map(OpenFile::Local),
            Self::Remote(object, _) => {
                let mut reader = ObjectReader::new(object, access);
                reader.seek(SeekFrom::Start(0))?;
                Ok(OpenFile::Remote(reader))
            }
        }
    }

    /// Opens the file for a reader of tables.
    pub(crate) fn open_parts(&self) -> io::Result<RangeFile> {
        match self {
            Self::Local(path) => retry(|| regular::open(path)).map(RangeFile::Local),
            Self::Remote(object, begun) => {
                let begun = begun.lock().unwrap_or_else(PoisonError::into_inner).parts.take();
                Ok(RangeFile::Remote(begun.unwrap_or_else(|| TableParts::new(object))))
            }
        }
    }

    /// The first bytes, at most `wanted`.
    pub(crate) fn start(&self, wanted: usize) -> io::Result<Bytes> {
        match self {
            Self::Local(_) => {
                let mut bytes = Vec::new();
                self.open()?.take(wanted as u64).read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
            Self::Remote(object, _) => object.start(wanted as u64),
        }
    }

    /// The bytes of a range inside the file.
    pub(crate) fn bytes(&self, range: Range<u64>) -> io::Result<Bytes> {
        match self {
            Self::Local(_) => {
                let mut file = self.open()?;
                file.seek(SeekFrom::Start(range.start))?;
                let mut bytes = Vec::new();
                file.take(range.end - range.start).read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
            Self::Remote(object, _) => object.fetch(range),
        }
    }

    /// Begins to fetch the first bytes of an object, which is read soon; of a table that is read by `parts`, its end.
    pub(crate) fn prefetch(&self, parts: bool) {
        let Self::Remote(object, begun) = self else { return };
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        if parts && begun.parts.is_none() {
            let ranged = TableParts::new(object);
            ranged.prefetch();
            begun.parts = Some(ranged);
        } else if !parts && begun.reader.is_none() {
            let mut reader = whole(object);
            reader.prefetch();
            begun.reader = Some(reader);
        }
    }

    /// The size, the etag and the time of the last change, now for a file of the local disk, and when it was found for
    /// an object, which is only read as long as it is the same.
    pub(crate) fn stat(&self) -> io::Result<ObjectStat> {
        match self {
            Self::Local(path) => Ok(stat_of(&path.metadata()?)),
            Self::Remote(object, _) => Ok(object.stat().clone()),
        }
    }

    /// Fails if a request for the object has failed.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Remote(object, _) => object.check(),
        }
    }

    /// True for an object in remote storage.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(..))
    }
}

/// A reader of a whole object.
fn whole(object: &Arc<Object>) -> ObjectReader {
    ObjectReader::new(object, ReadOrder::Range(0..object.stat().size))
}

/// A number that changes with the size of a file of the local disk, or with the time of its last change.
pub(crate) fn version_of(metadata: &Metadata) -> u64 {
    stat_of(metadata).version()
}

fn stat_of(metadata: &Metadata) -> ObjectStat {
    ObjectStat { size: metadata.len(), etag: None, modified: modified(metadata) }
}

/// The time of the last change of a file, in nanoseconds since 1970; 0 where the system does not tell.
fn modified(metadata: &Metadata) -> u64 {
    let time = metadata.modified().ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// An open file.
#[derive(Debug)]
pub(crate) enum OpenFile {
    /// A file of the local disk.
    Local(LocalFile),
    /// An object.
    Remote(ObjectReader),
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(file) => file.read(buffer),
            Self::Remote(reader) => reader.read(buffer),
        }
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Local(file) => file.seek(to),
            Self::Remote(reader) => reader.seek(to),
        }
    }
}

/// A file that is open for a reader of tables.
#[derive(Debug)]
pub(crate) enum RangeFile {
    /// A file of the local disk.
    Local(File),
    /// The parts of an object.
    Remote(TableParts),
}

/// A reader of such a file, from a place on.
#[derive(Debug)]
pub(crate) enum RangeFileReader {
    /// Of a file of the local disk.
    Local(File),
    /// Of an object.
    Remote(TablePartsReader),
}

impl RangeFile {
    /// The same file, for another reader.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Local(file) => Self::Local(file.try_clone()?),
            Self::Remote(ranged) => Self::Remote(ranged.clone()),
        })
    }

    /// A reader from `start` on.
    pub(crate) fn reader(&self, start: u64) -> io::Result<BufReader<RangeFileReader>> {
        Ok(BufReader::new(match self {
            Self::Local(file) => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(start))?;
                RangeFileReader::Local(file)
            }
            Self::Remote(ranged) => RangeFileReader::Remote(ranged.reader(start)),
        }))
    }

    /// The bytes of a range; fewer where the file has become shorter.
    pub(crate) fn bytes(&self, start: u64, length: usize) -> io::Result<Bytes> {
        match self {
            Self::Local(file) => {
                let mut bytes = Vec::with_capacity(length);
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(start))?;
                RangeFileReader::Local(file).take(length as u64).read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
            Self::Remote(ranged) => ranged.bytes(start..start + length as u64),
        }
    }

    /// Says which ranges of which groups will be read: for each group its beginning, and its ranges.
    pub(crate) fn plan(&self, groups: impl FnOnce() -> Vec<(u64, Vec<Range<u64>>)>) {
        if let Self::Remote(ranged) = self {
            ranged.plan(&groups());
        }
    }
}

impl Read for RangeFileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(file) => retry(|| file.read(buffer)),
            Self::Remote(reader) => reader.read(buffer),
        }
    }
}

impl Seek for RangeFileReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Local(file) => file.seek(to),
            Self::Remote(reader) => reader.seek(to),
        }
    }
}
