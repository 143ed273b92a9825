//! [`EmptyPasses`]: the whole passes in which a lane packs no document of a pool, and after which it is not read again.

use super::packed_block::PackedBlock;
use super::record_order::BlockAddress;
use crate::stream::state::lane_state::PoolState;

/// Further passes or rounds in which a lane may pack nothing after it has packed documents: each may deal it others, and a
/// row of padding takes the place of each.
pub(super) const MOST_EMPTY_PASSES: u64 = 64;

/// Documents of a source of the caller, in all lanes together, after which such a source is given up if none of them was kept: it may
/// have no end. A lane reads its part of them, and never fewer than `LEAST_UNKEPT`.
const MOST_UNKEPT: u64 = 100_000;
const LEAST_UNKEPT: u64 = 2_000;

/// Records that count as one of the `MOST_UNKEPT` documents if a `filter` or a `select` leaves them out: it may look for few among many.
const LEFT_OUT_AS_ONE: u64 = 10;

/// The passes over a pool in which a lane packs no document.
#[derive(Clone, Copy, Default)]
pub(super) struct EmptyPasses {
    /// The place from which on no document was packed.
    pub(super) unpacked_from: BlockAddress,
    /// True if a document was found there.
    pub(super) found: bool,
    /// The further passes that may pack none.
    pub(super) left: u64,
    /// The records that a `filter` or a `select` left out since a document was kept; of a source of the caller, all records since.
    pub(super) left_out: u64,
    /// The documents of a source of the caller since a document was kept.
    pub(super) read_documents: u64,
}

impl EmptyPasses {
    /// The passes before a state.
    pub(super) fn of(state: &PoolState) -> Self {
        let PoolState { unpacked_from, found, empty_passes_left: left, .. } = *state;
        Self { unpacked_from, found, left, left_out: 0, read_documents: 0 }
    }

    /// Counts the records of a block.
    pub(super) fn add(&mut self, block: &PackedBlock) {
        self.left_out += block.ledger.left_out();
        // The records of the caller are dealt as they come, by no list of extents.
        if block.dealt.is_none() {
            self.read_documents += block.ledger.read.documents;
        }
    }

    /// True if no document was packed in a whole pass before this place.
    pub(super) fn is_whole_pass_before(&self, place: &BlockAddress) -> bool {
        *place >= self.unpacked_from.next_epoch()
    }

    /// Begins another pass behind an empty one; false if no further one may be empty.
    pub(super) fn begin(&mut self, place: BlockAddress) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        (self.left, self.unpacked_from, self.found) = (left, place, false);
        true
    }

    /// Notes that a document before `next` was packed.
    pub(super) fn note_packed(&mut self, next: BlockAddress) {
        *self = Self {
            unpacked_from: next,
            left: MOST_EMPTY_PASSES,
            found: self.found,
            ..Self::default()
        };
    }

    /// True if a source of the caller has given so many documents in a row without a kept one that it is read no further.
    pub(super) fn has_too_many_empty_documents(&self, lanes: u64) -> bool {
        let documents =
            self.read_documents.saturating_sub(self.left_out) + self.left_out / LEFT_OUT_AS_ONE;
        self.read_documents > 0 && documents >= (MOST_UNKEPT / lanes).max(LEAST_UNKEPT)
    }
}
