//! [`DocumentStore`]: documents by their numbers, in memory or left in the token log, until no row needs them.

use std::ops::Range;
use std::sync::Arc;

use super::memory_budget::MemoryBudget;
use super::stored_documents::{DocumentNumbers, StoredDocuments};
use super::token_log::{LoggedBlock, TokenLog};
use crate::document::documents::{Document, Documents};
use crate::document::ragged_columns::ColumnName;

/// The segments, and the bytes of their documents, above which it pays to search a store for documents that no row needs any more.
/// A segment is what one [`DocumentStore::push`] appended. Where many lanes of a stream have a store each, they share both numbers.
const SEGMENTS: usize = 32;

const BYTES: u64 = 16 << 20;

/// The share of both that a lane has at least, however many lanes there are.
const SEGMENTS_OF_LANE: usize = 4;

const BYTES_OF_LANE: u64 = 256 << 10;

/// Whole [`Documents`] in input order. A document's number counts all that were ever pushed.
///
/// A document that is too long for a row stays whole here; `DocumentCutter` makes pieces of it, which are numbers. So another `max_length`
/// needs no new tokenizing. A stream frees documents by [`DocumentStore::retain`]; the numbers stay.
#[derive(Debug, Default)]
pub struct DocumentStore {
    pub(super) segments: Vec<StoredDocuments>,
    /// The number of the first document of each: side by side, since each piece of a row is looked up here.
    firsts: Vec<u64>,
    end: u64,
    /// The bytes of documents in memory.
    resident: u64,
    /// The segments, and the bytes of their documents, that the last search for unused documents left.
    left: (usize, u64),
    /// The log that documents are read back from once they exceed the budget, if there is one.
    pub(super) budget: Option<MemoryBudget>,
}

impl DocumentStore {
    /// A store of documents that lie in `log` too, where they are left once they take more than `budget` bytes of
    /// memory.
    pub fn with_log(log: Arc<TokenLog>, budget: u64) -> Self {
        Self { budget: Some(MemoryBudget::new(log, budget)), ..Self::default() }
    }

    /// Appends documents and returns the numbers they got. `place` is where they lie in the log of the store.
    ///
    /// # Panics
    ///
    /// If documents without a place are pushed to a store that spills.
    pub fn push(&mut self, documents: Documents, place: Option<LoggedBlock>) -> Range<u64> {
        let first = self.end;
        self.end += documents.len() as u64;
        if documents.is_empty() {
            return first..self.end;
        }
        self.resident += documents.memory();
        let documents = Some(Box::new(documents.fitted()));
        self.firsts.push(first);
        self.segments.push(StoredDocuments {
            numbers: DocumentNumbers::From(first),
            place,
            documents,
        });
        if self.budget.as_mut().is_some_and(|budget| budget.note_use(self.resident)) {
            for segment in self.segments.iter_mut().rev() {
                // All before one that is in the log alone are there too.
                if segment.documents.take().is_none() {
                    break;
                }
                assert!(segment.place.is_some(), "a store that spills knows where");
            }
            self.resident = 0;
        }
        first..self.end
    }

    /// True if documents must be read back, so that [`DocumentStore::document`] has none.
    pub fn is_spilled(&self) -> bool {
        self.budget.as_ref().is_some_and(MemoryBudget::is_exceeded)
    }

    /// Bytes of memory that the documents of neighbouring rows may take.
    pub fn window(&self) -> u64 {
        self.budget.as_ref().map_or(u64::MAX, MemoryBudget::window)
    }

    /// Bytes of its memory that documents leave free.
    pub fn spare(&self) -> u64 {
        self.budget.as_ref().map_or(u64::MAX, |budget| budget.spare(self.resident))
    }

    /// The number that the next document will get.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// True if so many documents are kept that unused ones should be freed, where `lanes` stores share the memory.
    ///
    /// The number doubles with the documents in use at the last search, so that all searches together take as long as
    /// a few over all documents.
    pub fn is_crowded(&self, lanes: usize) -> bool {
        let segments = (SEGMENTS / lanes).max(SEGMENTS_OF_LANE).max(2 * self.left.0);
        let bytes = (BYTES / lanes as u64).max(BYTES_OF_LANE).max(2 * self.left.1);
        self.segments.len() > segments || self.resident > bytes
    }

    /// A document by its number.
    ///
    /// # Panics
    ///
    /// If it was never pushed, was given up, or has to be read back.
    pub fn document(&self, number: u64) -> Document<'_> {
        let (segment, index) = self.find(number);
        segment.documents.as_ref().expect("documents in memory").document(index)
    }

    pub(super) fn find(&self, number: u64) -> (&StoredDocuments, usize) {
        let after = self.firsts.partition_point(|&first| first <= number);
        let segment = &self.segments[after.checked_sub(1).expect("a document that is still kept")];
        (segment, segment.numbers.index(number))
    }

    /// All documents still kept in memory, in input order.
    pub fn documents(&self) -> impl Iterator<Item = Document<'_>> {
        self.segments.iter().flat_map(|segment| &segment.documents).flat_map(|it| it.iter())
    }

    /// The length of a column in each document still kept in memory, in input order.
    pub fn lengths(&self, name: ColumnName) -> impl Iterator<Item = usize> {
        self.documents().map(move |document| document.column(name).len())
    }

    /// Frees all documents in memory except those that `wanted` accepts by number.
    pub fn retain(&mut self, wanted: impl Fn(u64) -> bool) {
        let mut resident = 0;
        self.segments.retain_mut(|segment| {
            let Some(documents) = &mut segment.documents else { return true };
            let kept: Vec<usize> = (0..documents.len())
                .filter(|&index| wanted(segment.numbers.number(index)))
                .collect();
            if kept.len() < documents.len() {
                let numbers = kept.iter().map(|&index| segment.numbers.number(index)).collect();
                **documents = documents.select(&kept);
                segment.numbers = DocumentNumbers::Listed(numbers);
            }
            resident += documents.memory();
            !kept.is_empty()
        });
        self.firsts = self.segments.iter().map(|segment| segment.numbers.number(0)).collect();
        self.resident = resident;
        self.left = (self.segments.len(), resident);
    }
}
