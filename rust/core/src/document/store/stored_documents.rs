//! [`StoredDocuments`]: the documents of one push to a store, and the number of each.

use super::token_log::LoggedBlock;
use crate::document::documents::Documents;

/// Documents and the number of each, ascending.
#[derive(Debug)]
pub(super) struct StoredDocuments {
    pub(super) numbers: DocumentNumbers,
    /// Their place in the log, if there is one.
    pub(super) place: Option<LoggedBlock>,
    /// The documents, unless they are in the log only.
    pub(super) documents: Option<Box<Documents>>,
}

#[derive(Debug)]
pub(super) enum DocumentNumbers {
    From(u64),
    Listed(Vec<u64>),
}

impl DocumentNumbers {
    pub(super) fn number(&self, index: usize) -> u64 {
        match self {
            Self::From(first) => first + index as u64,
            Self::Listed(numbers) => numbers[index],
        }
    }

    pub(super) fn index(&self, number: u64) -> usize {
        match self {
            Self::From(first) => usize::try_from(number - first).expect("an index into memory"),
            Self::Listed(numbers) => numbers.partition_point(|&listed| listed < number),
        }
    }
}
