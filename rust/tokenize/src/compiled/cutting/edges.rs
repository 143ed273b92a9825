//! The places at which the text of a `SentencePiece` model is cut into pieces.
//!
//! Two letters, or a space and a letter after it, can rarely be cut apart, so these pairs are not looked up.
//! A cut before a space or next to a digit is nearly always possible. Only the other pairs are looked up one
//! by one.

use super::cut_boundaries::CutBoundaries;
use super::windows::{self, CutPlaces};
use crate::pieces::LONGEST;
use crate::split::{Masks, SplitCursor};

/// The cuts of a model, and the rules that hold for whole classes of characters.
pub(crate) struct CutRules {
    cuts: CutBoundaries,
    /// True if every space that does not follow a space can be cut off from the character before it.
    spaces: bool,
    /// True if a digit can be cut off from every neighbour.
    digits: bool,
}

impl CutRules {
    pub(crate) fn new(cuts: CutBoundaries) -> Self {
        let mut ascii = 0..128_u8;
        let spaces = ascii.clone().all(|left| left == b' ' || !cuts.joins(left, b' '));
        let digits = ascii.all(|other| {
            (b'0'..=b'9').all(|digit| !cuts.joins(other, digit) && !cuts.joins(digit, other))
        });
        Self { cuts, spaces, digits }
    }

    /// Writes the ends of the next pieces, and returns how many.
    pub(crate) fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
        windows::fill(self, text, cursor, ends)
    }
}

impl CutPlaces for CutRules {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
    fn between(&self, masks: Masks, edges: u64, text: &[u8]) -> u64 {
        let Masks { letter, digit, space, .. } = masks;
        let mut found = 0;
        if self.spaces {
            found |= space & !(space << 1);
        }
        if self.digits {
            found |= digit | digit << 1;
        }
        found &= edges;
        let candidates = edges & !found & !(letter & (letter << 1 | space << 1));
        found | windows::cut_bits(candidates, text, |left, right| !self.cuts.joins(left, right))
    }

    fn next(&self, text: &[u8], start: usize) -> usize {
        self.cuts.next::<true>(text, start)
    }

    #[inline]
    fn part(&self, text: &[u8], start: usize, end: usize) -> usize {
        // A long piece may have cuts between letters, and its parts recur sooner than the whole piece.
        if end - start > LONGEST { self.next(text, start) } else { end }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The ends of all pieces, a few at a time.
    fn ends(fill: impl Fn(&mut SplitCursor, &mut [u32]) -> usize) -> Vec<usize> {
        let (mut cursor, mut buffer, mut found) = (SplitCursor::new(0), [0; 7], Vec::new());
        loop {
            let count = fill(&mut cursor, &mut buffer);
            if count == 0 {
                return found;
            }
            found.extend(buffer[..count].iter().map(|end| *end as usize));
        }
    }

    proptest! {
        #[test]
        fn pieces_end_where_no_token_joins(
            tokens in prop::collection::vec("[ab ]{2,5}|[a-c1.]{2,4}|[ ,\r\n]{2,3}", 0..12),
            text in "([a-d]{1,20}|[ ]{1,3}|[0-2.,\r\n]{1,3}|é){1,40}",
        ) {
            let edges = CutRules::new(CutBoundaries::new(tokens.iter().map(String::as_bytes)));
            let text = text.as_bytes();
            let found = ends(|cursor, ends| edges.fill(text, cursor, ends));
            let portable =
                ends(|cursor, ends| windows::fill_portable(&edges, text, cursor, ends));
            prop_assert_eq!(&portable, &found);
            prop_assert!(found.is_sorted() && found.last() == Some(&text.len()));
            for end in found {
                let joined = text.get(end).is_some_and(|next| {
                    tokens.iter().any(|token| {
                        token.as_bytes().windows(2).any(|pair| pair == [text[end - 1], *next])
                    })
                });
                prop_assert!(!joined, "cut at {}", end);
            }
        }
    }
}
