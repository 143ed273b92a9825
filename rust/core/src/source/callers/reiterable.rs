//! [`Reiterable`]: records that the caller gives anew for each epoch, and their blocks.

use std::fmt;
use std::ops::Range;

use super::memory_records::CallerRecords;
use crate::error::Result;
use crate::source::block::{Block, BlockContent};
use crate::source::discovery::found::SourceFile;

/// Records that the caller gives in order, as often as they are asked for from the beginning.
///
/// A call after one that failed fails likewise: the records do not end there.
pub trait Reiterable: fmt::Debug + Send {
    /// Starts an epoch: at its beginning, or after the records that were given before the snapshot `at`.
    fn begin(&mut self, epoch: u64, at: Option<&str>) -> Result<()>;

    /// The next records: `most`, or fewer at the end.
    fn next(&mut self, most: usize) -> Result<CallerRecords>;

    /// Leaves out the next records, and returns their number: `most`, or fewer at the end.
    fn skip(&mut self, most: u64) -> Result<u64>;

    /// The place after the records so far, as text; `None` where the records do not tell it.
    fn snapshot(&mut self) -> Result<Option<String>>;
}

/// Some consecutive records that the caller gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallerValues {
    bytes: Vec<u8>,
    places: Vec<std::result::Result<Range<usize>, String>>,
}

impl CallerValues {
    /// The records of a [`Reiterable`].
    pub(crate) fn of(records: CallerRecords) -> Self {
        match records {
            CallerRecords::Values { bytes, places } => Self { bytes, places },
            CallerRecords::Broken(message) => {
                Self { bytes: Vec::new(), places: vec![Err(message)] }
            }
            CallerRecords::Rows(_) => Self::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Takes the first `count` records, or all if there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Self {
        if count >= self.len() {
            return std::mem::take(self);
        }
        let rest = self.places.split_off(count);
        let places = std::mem::replace(&mut self.places, rest);
        let taken = Self { bytes: self.bytes.clone(), places };
        taken.compact()
    }

    /// The records followed by others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        let before = self.bytes.len();
        self.bytes.extend(others.bytes);
        let moved = |place: Range<usize>| place.start + before..place.end + before;
        self.places.extend(others.places.into_iter().map(|place| place.map(moved)));
        self
    }

    /// The records without the bytes of others.
    fn compact(self) -> Self {
        let mut bytes = Vec::new();
        let places = self.places.into_iter().map(|place| {
            place.map(|range| {
                let start = bytes.len();
                bytes.extend_from_slice(&self.bytes[range]);
                start..bytes.len()
            })
        });
        let places = places.collect();
        Self { bytes, places }
    }

    /// The records as a block. The first has the number `first` in its epoch, from 1.
    pub(crate) fn block(&self, file: &SourceFile, number: usize, first: u64) -> Block {
        let Self { bytes, places } = self.clone();
        let size = bytes.len() as u64;
        let content = BlockContent::FromMemory { first, bytes, places };
        Block::new(&file.path, number, file.source, size, content)
    }
}
