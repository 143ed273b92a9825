//! [`regions`]: cuts a text region after region, such as [digits] and what is between them.

use super::split_cursor::{Scanner, SplitCursor, position};
use super::text::{Stretch, decode};

#[inline]
fn scan(pattern: &impl Scanner, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
    let stretch = Stretch::new(text);
    let mut count = 0;
    let mut at = cursor.at;
    for end in ends {
        if at >= text.len() {
            break;
        }
        at = pattern.piece_end(stretch, at);
        *end = position(at);
        count += 1;
    }
    cursor.at = at;
    count
}

/// Cuts region after region; `region` gives the end of a region, and whether it is a piece by itself.
pub(super) fn regions(
    pattern: &impl Scanner,
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
    region: impl Fn(&[u8], usize) -> (usize, bool),
) -> usize {
    let mut count = 0;
    while count < ends.len() && cursor.at < text.len() {
        if cursor.at == cursor.region_end {
            let (end, whole) = region(text, cursor.at);
            cursor.region_end = end;
            if whole {
                cursor.at = end;
                ends[count] = position(end);
                count += 1;
                continue;
            }
        }
        count += scan(pattern, &text[..cursor.region_end], cursor, &mut ends[count..]);
    }
    count
}

/// The end of the region of digits or of other text at `start`, and whether it is a piece. Digits are those
/// of `char::is_numeric`.
pub(super) fn digits(text: &[u8], start: usize, alone: bool) -> (usize, bool) {
    let numeric = |at: usize| {
        let (code_point, length) = decode(text, at);
        (char::from_u32(code_point).is_some_and(char::is_numeric), length)
    };
    let (first, length) = numeric(start);
    let mut at = start + length;
    if first && alone {
        return (at, true);
    }
    while at < text.len() {
        let (found, length) = numeric(at);
        if found != first {
            break;
        }
        at += length;
    }
    (at, first)
}
