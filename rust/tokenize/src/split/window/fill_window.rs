//! [`fill`]: cuts a text window after window, and by the scanner where a window decides nothing.

use super::ascii_boundaries::{AsciiRules, boundaries};
use crate::split::classify::{Masks, WINDOW, portable};
use crate::split::split_cursor::{Scanner, SplitCursor, position};
use crate::split::text::Stretch;

/// A pattern with rules for windows.
pub(in crate::split) trait WindowedScanner: Scanner {
    /// The rules of the pattern for ASCII text.
    fn rules(&self) -> AsciiRules;
}

/// Windows of fewer bytes than this do not pay for the masks.
const WORTH: usize = 12;

/// The masks of the window at the start of `text`, and the number of its bytes that are text.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
pub(crate) fn window(text: &[u8], classify: impl Fn(&[u8; WINDOW]) -> Masks) -> (Masks, usize) {
    if let Some(bytes) = text.first_chunk::<WINDOW>() {
        return (classify(bytes), WINDOW);
    }
    let mut bytes = [0; WINDOW];
    bytes[..text.len()].copy_from_slice(text);
    (classify(&bytes), text.len())
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
pub(super) fn fill_with(
    pattern: &impl WindowedScanner,
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
    classify: impl Fn(&[u8; WINDOW]) -> Masks,
) -> usize {
    let rules = pattern.rules();
    let stretch = Stretch::new(text);
    let mut count = 0;
    let mut at = cursor.at;
    while count < ends.len() && at < text.len() {
        let rest = &text[at..];
        let mut found = 0;
        if rest.len() >= WORTH && rest[0].is_ascii() && rest[1].is_ascii() {
            let (masks, length) = window(rest, &classify);
            found = boundaries(rules, masks, length, rest);
        }
        if found == 0 {
            at = pattern.piece_end(stretch, at);
            ends[count] = position(at);
            count += 1;
            continue;
        }
        let base = position(at);
        let room = &mut ends[count..];
        let most = (found.count_ones() as usize).min(room.len());
        for end in &mut room[..most] {
            *end = base + found.trailing_zeros();
            found &= found - 1;
        }
        count += most;
        at = ends[count - 1] as usize;
    }
    cursor.at = at;
    count
}

/// As [`fill_with`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fill_avx2(
    pattern: &impl WindowedScanner,
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
) -> usize {
    fill_with(pattern, text, cursor, ends, |window| crate::split::classify::avx2(window))
}

/// Writes the ends of the next pieces, as [`crate::split::Splitter::fill`].
pub(in crate::split) fn fill(
    pattern: &impl WindowedScanner,
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if crate::hardware::has_avx2() {
        #[expect(unsafe_code, reason = "the function needs features of the machine")]
        // SAFETY: the processor has the features that the function is compiled for.
        return unsafe { fill_avx2(pattern, text, cursor, ends) };
    }
    fill_with(pattern, text, cursor, ends, portable)
}
