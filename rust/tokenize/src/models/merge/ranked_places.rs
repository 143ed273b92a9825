//! The ranks of the pairs of a short word, each with its place, so that the smallest is the next pair to merge.

/// A token in the numbering of [`Merges`](super::Merges): base symbols first, then by the rank of the merge that makes them.
pub(crate) type Symbol = u32;

/// The value for a pair that is not merged.
pub(crate) const NONE: Symbol = Symbol::MAX;

/// The most symbols of a short word; longer words are merged by [`Windows`](super::Windows), in linear time.
pub(crate) const SHORT: usize = 64;

/// The length of most words; interleaved words of this length cost less to set up.
pub(super) const TINY: usize = 16;

/// The length of most of the other words.
pub(super) const SMALL: usize = 32;

/// The left shift of a rank, which makes room for the place of its pair.
pub(super) const PLACE_BITS: u32 = SHORT.trailing_zeros();

/// A rank combined with its place, so that the smallest value is the leftmost pair of the lowest rank. Ranks
/// have at most 22 bits.
#[inline]
pub(super) fn placed(rank: u32, at: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "places are below 64")]
    let placed = rank << PLACE_BITS | at as u32;
    if rank == NONE { NONE } else { placed }
}

/// The smallest of all ranks.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
pub(super) fn smallest<const N: usize>(ranks: &[u32; N]) -> u32 {
    let (blocks, _) = ranks.as_chunks::<8>();
    let mut least = [NONE; 8];
    for block in blocks {
        for at in 0..8 {
            least[at] = least[at].min(block[at]);
        }
    }
    let mut width = 4;
    while width > 0 {
        for at in 0..width {
            least[at] = least[at].min(least[at + width]);
        }
        width /= 2;
    }
    least[0]
}
