//! [`StoredBlock`]: a block whose documents are in the store of a lane.

use std::collections::VecDeque;

use crate::document::{Documents, INPUTS};
use crate::stream::lane::picture_hashes::PictureHashes;
use crate::stream::lane::record_order::BlockAddress;

/// A block whose documents are in the store.
pub(super) struct StoredBlock {
    pub(super) pool: usize,
    pub(super) address: BlockAddress,
    /// The hash of its records.
    pub(super) hash: u32,
    /// The number of its first document.
    pub(super) first: u64,
    pub(super) places: Vec<u64>,
    /// The tokens of each of its documents.
    pub(super) lengths: Vec<usize>,
    /// The hashes of the pictures of each of its documents; empty if they show none.
    pub(super) pictures: Vec<PictureHashes>,
}

impl StoredBlock {
    /// The number after that of its last document.
    pub(super) fn end(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// The index of a document among those of the block.
    pub(super) fn index(&self, number: u64) -> usize {
        usize::try_from(number - self.first).expect("a place in a block")
    }

    /// The hashes of the pictures of a document.
    pub(super) fn pictures_of(&self, number: u64) -> &[u32] {
        self.pictures.get(self.index(number)).map_or(&[], |hashes| hashes)
    }
}

/// The block of a document.
pub(super) fn held(held: &VecDeque<StoredBlock>, number: u64) -> &StoredBlock {
    let after = held.partition_point(|held| held.first <= number);
    &held[after.checked_sub(1).expect("the block of a document in a row")]
}

/// The tokens of each document.
pub(super) fn lengths_of(documents: &Documents) -> Vec<usize> {
    documents.iter().map(|document| document.column(INPUTS).len()).collect()
}
