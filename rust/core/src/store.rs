//! Whole documents, kept as columns: what packing reads lengths from and rows are copied from.

use std::ops::Range;

use crate::document::{ColumnName, Document, Documents};

/// Whole [`Documents`] in input order. A document's number counts all that were ever pushed.
///
/// What is too long for a row is the plan's business, so another `max_length` needs no new tokenizing. A
/// stream gives up what it no longer needs by [`Store::retain`]; the numbers stay.
#[derive(Debug, Default)]
pub struct Store {
    segments: Vec<Segment>,
    end: u64,
}

/// Documents and the number of each, ascending.
#[derive(Debug)]
struct Segment {
    numbers: Numbers,
    documents: Documents,
}

#[derive(Debug)]
enum Numbers {
    From(u64),
    Listed(Vec<u64>),
}

impl Segment {
    fn first(&self) -> u64 {
        self.number(0)
    }

    fn number(&self, index: usize) -> u64 {
        match &self.numbers {
            Numbers::From(first) => first + index as u64,
            Numbers::Listed(numbers) => numbers[index],
        }
    }

    fn index(&self, number: u64) -> usize {
        match &self.numbers {
            Numbers::From(first) => usize::try_from(number - first).expect("an index into memory"),
            Numbers::Listed(numbers) => numbers.partition_point(|&listed| listed < number),
        }
    }
}

impl Store {
    /// Appends documents and returns the numbers they got.
    pub fn push(&mut self, documents: Documents) -> Range<u64> {
        let first = self.end;
        self.end += documents.len() as u64;
        if !documents.is_empty() {
            self.segments.push(Segment { numbers: Numbers::From(first), documents });
        }
        first..self.end
    }

    /// The number that the next document will get.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many runs of documents are held apart: what looking one up searches.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// A document by its number.
    ///
    /// # Panics
    ///
    /// If it was never pushed, or was given up.
    pub fn document(&self, number: u64) -> Document<'_> {
        let after = self.segments.partition_point(|segment| segment.first() <= number);
        let segment = &self.segments[after.checked_sub(1).expect("a document that is still kept")];
        segment.documents.document(segment.index(number))
    }

    /// All documents still kept, in input order.
    pub fn documents(&self) -> impl Iterator<Item = Document<'_>> {
        self.segments.iter().flat_map(|segment| {
            (0..segment.documents.len()).map(|index| segment.documents.document(index))
        })
    }

    /// The length of a column in each document still kept, in input order.
    pub fn lengths(&self, name: ColumnName) -> impl Iterator<Item = usize> {
        self.documents().map(move |document| document.column(name).len())
    }

    /// Gives up all documents but those that `wanted` accepts by number.
    pub fn retain(&mut self, wanted: impl Fn(u64) -> bool) {
        self.segments.retain_mut(|segment| {
            let kept: Vec<usize> = (0..segment.documents.len())
                .filter(|&index| wanted(segment.number(index)))
                .collect();
            if kept.len() < segment.documents.len() {
                let numbers = kept.iter().map(|&index| segment.number(index)).collect();
                segment.documents = segment.documents.select(&kept);
                segment.numbers = Numbers::Listed(numbers);
            }
            !kept.is_empty()
        });
    }
}
