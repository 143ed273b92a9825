//! Cuts a text into pieces, sixty-four ASCII bytes at a time: the rules of whole classes of characters are decided
//! for all of them at once.

use crate::split::{Masks, SplitCursor, WINDOW, classify_portable, position, window};

/// Windows of fewer bytes than this do not pay for the masks.
const WORTH: usize = 12;

/// The places at which a text can be cut.
pub(crate) trait CutPlaces {
    /// The cuts in the window at the start of `text`: bit `i` is set if a piece begins at byte `i`. Only bits of
    /// `edges`, which are between two ASCII characters, may be set.
    fn between(&self, masks: Masks, edges: u64, text: &[u8]) -> u64;

    /// The end of the piece that begins at `start`, which is before the end of the text.
    fn next(&self, text: &[u8], start: usize) -> usize;

    /// The end of the first part of the piece `start..end`, if it is to be cut further.
    #[inline]
    fn part(&self, _text: &[u8], _start: usize, end: usize) -> usize {
        end
    }
}

/// Writes the ends of the next pieces, and returns how many.
pub(crate) fn fill(
    places: &impl CutPlaces,
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if crate::hardware::has_avx2() {
        #[expect(unsafe_code, reason = "the function needs features of the machine")]
        // SAFETY: the processor has the features that the function is compiled for.
        return unsafe { fill_avx2(places, text, cursor, ends) };
    }
    fill_portable(places, text, cursor, ends)
}

/// As [`fill`], on any machine.
pub(crate) fn fill_portable(
    places: &impl CutPlaces,
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
) -> usize {
    fill_with(places, text, cursor, ends, classify_portable)
}

/// As [`fill`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fill_avx2(
    places: &impl CutPlaces,
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
) -> usize {
    fill_with(places, text, cursor, ends, |window| crate::split::classify_avx2(window))
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
fn fill_with(
    places: &impl CutPlaces,
    text: &[u8],
    cursor: &mut SplitCursor,
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
            let known = (masks.wide.trailing_zeros() as usize).min(length);
            let edges = if known == WINDOW { u64::MAX } else { (1 << known) - 1 } & !1;
            found = places.between(masks, edges, rest);
        }
        if found == 0 {
            at = places.next(text, at);
            ends[count] = position(at);
            count += 1;
        }
        let base = at;
        while found != 0 && count < ends.len() {
            let end = base + found.trailing_zeros() as usize;
            at = places.part(text, at, end);
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

/// The bits of `candidates` at which `cuts` says that a text is cut, given the characters on both sides.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
pub(crate) fn cut_bits(mut candidates: u64, text: &[u8], cuts: impl Fn(u8, u8) -> bool) -> u64 {
    let mut found = 0;
    while candidates != 0 {
        let at = candidates.trailing_zeros() as usize;
        found |= u64::from(cuts(text[at - 1], text[at])) << at;
        candidates &= candidates - 1;
    }
    found
}
