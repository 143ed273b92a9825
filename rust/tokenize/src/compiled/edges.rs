//! Cuts the text of a `SentencePiece` model into pieces, sixty-four ASCII bytes at a time.
//!
//! Two letters, or a space and a letter after it, can rarely be cut apart, so these pairs are not looked up.
//! A cut before a space or next to a digit is nearly always possible. Only the other pairs are looked up one
//! by one.

use super::cuts::Cuts;
use crate::pieces::LONGEST;
use crate::split::{Cursor, Masks, WINDOW, classify_portable, window};

/// Windows of fewer bytes than this do not pay for the masks.
const WORTH: usize = 12;

/// The cuts of a model, and the rules that hold for whole classes of characters.
pub(super) struct Edges {
    cuts: Cuts,
    /// Whether every space that does not follow a space can be cut off from the character before it.
    spaces: bool,
    /// Whether a digit can be cut off from every neighbour.
    digits: bool,
}

impl Edges {
    pub(super) fn new(cuts: Cuts) -> Self {
        let mut ascii = 0..128_u8;
        let spaces = ascii.clone().all(|left| left == b' ' || !cuts.joins(left, b' '));
        let digits = ascii.all(|other| {
            (b'0'..=b'9').all(|digit| !cuts.joins(other, digit) && !cuts.joins(digit, other))
        });
        Self { cuts, spaces, digits }
    }

    /// The end of the first piece of `text` from `start` on.
    pub(super) fn next(&self, text: &[u8], start: usize) -> usize {
        self.cuts.next::<true>(text, start)
    }

    /// Writes the ends of the next pieces, and returns how many.
    pub(super) fn fill(&self, text: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if crate::machine::has_avx2() {
            #[expect(unsafe_code, reason = "the function needs features of the machine")]
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { self.fill_avx2(text, cursor, ends) };
        }
        self.fill_with(text, cursor, ends, classify_portable)
    }

    /// As [`Self::fill_with`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn fill_avx2(&self, text: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize {
        self.fill_with(text, cursor, ends, |window| crate::split::classify_avx2(window))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
    fn fill_with(
        &self,
        text: &[u8],
        cursor: &mut Cursor,
        ends: &mut [u32],
        classify: impl Fn(&[u8; WINDOW]) -> Masks,
    ) -> usize {
        let mut at = cursor.at;
        let mut count = 0;
        while count < ends.len() && at < text.len() {
            let rest = &text[at..];
            let mut found = 0;
            if rest.len() >= WORTH && rest[0].is_ascii() && rest[1].is_ascii() {
                let (masks, length) = window(rest, &classify);
                found = self.boundaries(masks, length, rest);
            }
            if found == 0 {
                at = self.next(text, at);
                ends[count] = position(at);
                count += 1;
            }
            let base = at;
            while found != 0 && count < ends.len() {
                let end = base + found.trailing_zeros() as usize;
                // A long piece may have cuts between letters, and its parts recur sooner than the whole
                // piece.
                at = if end - at > LONGEST { self.next(text, at) } else { end };
                if at == end {
                    found &= found - 1;
                }
                ends[count] = position(at);
                count += 1;
            }
        }
        cursor.at = at;
        count
    }

    /// The cuts in the window at the start of `text`: bit `i` is set if a piece begins at byte `i`. Bit 0 is
    /// never set.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
    fn boundaries(&self, masks: Masks, length: usize, text: &[u8]) -> u64 {
        let known = (masks.wide.trailing_zeros() as usize).min(length);
        let edges = if known == WINDOW { u64::MAX } else { (1 << known) - 1 } & !1;
        let Masks { letter, digit, space, .. } = masks;
        let mut found = 0;
        if self.spaces {
            found |= space & !(space << 1);
        }
        if self.digits {
            found |= digit | digit << 1;
        }
        found &= edges;
        let mut asked = edges & !found & !(letter & (letter << 1 | space << 1));
        while asked != 0 {
            let at = asked.trailing_zeros() as usize;
            found |= u64::from(!self.cuts.joins(text[at - 1], text[at])) << at;
            asked &= asked - 1;
        }
        found
    }
}

/// A position as it is stored; texts are always shorter than 4 GiB.
#[inline]
fn position(at: usize) -> u32 {
    u32::try_from(at).expect("a text is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The ends of all pieces, a few at a time.
    fn ends(fill: impl Fn(&mut Cursor, &mut [u32]) -> usize) -> Vec<usize> {
        let (mut cursor, mut buffer, mut found) = (Cursor::new(0), [0; 7], Vec::new());
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
            let edges = Edges::new(Cuts::new(tokens.iter().map(String::as_bytes)));
            let text = text.as_bytes();
            let found = ends(|cursor, ends| edges.fill(text, cursor, ends));
            let portable =
                ends(|cursor, ends| edges.fill_with(text, cursor, ends, classify_portable));
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
