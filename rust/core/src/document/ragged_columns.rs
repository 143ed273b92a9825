//! [`ColumnName`] and [`Ragged`]: the columns of documents, one list of numbers a document.

use std::iter;
use std::ops::Range;

/// The name of a column of lists of numbers, one list a document. Another objective brings other names, such as its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnName(pub &'static str);

/// The ids that a causal language model reads.
pub const INPUTS: ColumnName = ColumnName("inputs");

/// The numbers of tokens before each place at which a conversation may be cut, ascending.
pub const TURN_ENDS: ColumnName = ColumnName("turn_ends");

/// The lengths of the parts that the ids consist of, such as a prompt and its answers.
pub const PARTS: ColumnName = ColumnName("parts");

/// The kind of each part: the number of a [`PartKind`](super::several_texts::PartKind).
pub const KINDS: ColumnName = ColumnName("part_kinds");

/// The labels of the document as a whole: numbers, or names of classes as [`class_names`](super::class_names) writes them.
pub const LABELS: ColumnName = ColumnName("document_labels");

/// The labels that a function of the caller gave the tokens: the bits of 32-bit integers.
pub const CUSTOM_LABELS: ColumnName = ColumnName("made_labels");

/// The token types that a function of the caller gave the tokens; empty where it gave none.
pub const CUSTOM_TOKEN_TYPES: ColumnName = ColumnName("made_token_types");

/// The pictures of the document, as [`pictures`](super::document_pictures) writes them.
pub const PICTURES: ColumnName = ColumnName("pictures");

impl ColumnName {
    /// The column of this name, if there is such a column.
    pub fn known(name: &str) -> Option<Self> {
        [INPUTS, TURN_ENDS, PARTS, KINDS, LABELS, CUSTOM_LABELS, CUSTOM_TOKEN_TYPES, PICTURES]
            .into_iter()
            .find(|known| known.0 == name)
    }
}

/// A column of lists of numbers, one list a document: one flat list, and the beginning of each document in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ragged {
    pub(super) ids: Vec<u32>,
    pub(super) offsets: Vec<u64>,
}

impl Default for Ragged {
    fn default() -> Self {
        Self { ids: Vec::new(), offsets: vec![0] }
    }
}

impl Ragged {
    /// Appends one document.
    pub fn push(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
        self.offsets.push(self.ids.len() as u64);
    }

    /// The ids of one document.
    pub fn document(&self, index: usize) -> &[u32] {
        &self.ids[self.range(index)]
    }

    /// The number of ids of one document.
    pub fn length(&self, index: usize) -> usize {
        self.range(index).len()
    }

    /// The documents at `indices`, in that order.
    pub(super) fn select(&self, indices: &[usize]) -> Self {
        let chosen: Vec<&[u32]> = indices.iter().map(|&index| self.document(index)).collect();
        Self { offsets: ends(&chosen).map(|end| end as u64).collect(), ids: chosen.concat() }
    }

    fn range(&self, index: usize) -> Range<usize> {
        let at = |offset: u64| usize::try_from(offset).expect("an offset into memory");
        at(self.offsets[index])..at(self.offsets[index + 1])
    }
}

/// The end of each list when they stand one behind the other, after a 0.
pub(super) fn ends<T>(lists: &[&[T]]) -> impl Iterator<Item = usize> {
    let ends = lists.iter().scan(0, |end, list| {
        *end += list.len();
        Some(*end)
    });
    iter::once(0).chain(ends)
}
