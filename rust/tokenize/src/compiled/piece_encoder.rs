//! [`PieceEncoder`]: a model that encodes a stretch piece by piece.

use std::ops::Range;

use super::spans::{OffsetTracker, SourceRanges};
use super::thread_caches::{CacheMiss, QueuedPiece, ThreadMemory};
use crate::pieces::PieceKey;
use crate::split::SplitCursor;

/// A model that encodes a stretch piece by piece.
pub(super) trait PieceEncoder {
    /// Writes the ends of the next pieces, and returns how many.
    fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize;

    /// The end of the first part of a long piece; the part is encoded on its own. `whole` is true if no part
    /// has been cut off yet.
    fn cut(&self, piece: &[u8], _whole: bool) -> usize {
        piece.len()
    }

    /// True if a part of a piece can have other ids than a piece of the same text.
    fn parts_have_other_ids(&self) -> bool {
        false
    }

    /// True if the caches store a piece of this length in bytes that is too long for a key.
    fn keeps(&self, _length: usize) -> bool {
        true
    }

    /// Announces that [`Self::learn`] may be called for a piece.
    fn expect(&self, _: PieceKey) {}

    /// Puts the ids of all absent pieces into the gaps and into the cache, if that is faster than one at a
    /// time.
    fn learn(&self, _: &[u8], _: &mut [CacheMiss], _: &mut ThreadMemory) {}

    /// Appends the ids of a piece, or of a part of one, that no cache has.
    fn miss(&self, piece: &[u8], part: bool, memory: &mut ThreadMemory, ids: &mut Vec<u32>);

    /// Records the source ranges of the tokens of the piece `text[begin..]`; the first token is at
    /// `position`.
    fn record_offsets(
        &self,
        text: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    );
}

/// The queued pieces of a text; each begins at the end of the piece before it.
pub(super) struct QueuedRun<'a> {
    pub(super) text: &'a [u8],
    /// The start of the first piece.
    pub(super) begin: usize,
    pub(super) pieces: &'a [QueuedPiece],
}

impl QueuedRun<'_> {
    /// The byte range of a piece.
    pub(super) fn range(&self, index: usize) -> Range<usize> {
        let before = index.checked_sub(1).map(|before| self.pieces[before].end as usize);
        before.unwrap_or(self.begin)..self.pieces[index].end as usize
    }

    /// The index of the first piece, from `index` on, that ends after `byte`.
    pub(super) fn behind(&self, index: usize, byte: usize) -> usize {
        index + self.pieces[index..].partition_point(|piece| piece.end as usize <= byte)
    }
}
