//! [`SplitCursor`]: the place in a stretch that is being cut, and [`Scanner`], the scanners that move it.

use super::text::Stretch;
use crate::pattern::Tails;

/// The most splits of a sequence.
pub(crate) const MOST_STEPS: usize = 8;

/// A scanner, which finds the end of one piece.
pub(crate) trait Scanner {
    /// The end of the piece that begins at `start`, which is before the end of the text.
    fn piece_end(&self, text: Stretch<'_>, start: usize) -> usize;
}

/// The state of cutting a stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitCursor {
    /// The start of the next piece.
    pub(crate) at: usize,
    /// The start of the stretch.
    pub(super) begin: usize,
    /// The end of the region that is being cut on its own.
    pub(super) region_end: usize,
    /// For each split of a sequence, the start and the end of its current part.
    pub(super) parts: [(u32, u32); MOST_STEPS],
    /// The positions from which the patterns match nothing more.
    pub(super) tails: Tails,
}

impl SplitCursor {
    /// A cursor at the start of a stretch that begins at `at`.
    pub(crate) fn new(at: usize) -> Self {
        Self { at, begin: at, region_end: at, parts: [(0, 0); MOST_STEPS], tails: Tails::default() }
    }
}

/// A position as it is stored; texts are always shorter than 4 GiB.
#[inline]
pub(crate) fn position(at: usize) -> u32 {
    u32::try_from(at).expect("a text is shorter than 4 GiB")
}
