//! `DeepSeek` V3's three splits: numbers of up to three digits, runs of kana and ideographs, and a pattern
//! for the rest.

use super::split_cursor::Scanner;
use super::text::{LETTER, MARK, NEWLINE, NUMBER, SIGN, SPACE, Stretch, decode};

/// The scanner of the third pattern, for a region between the matches of the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeepSeek;

impl DeepSeek {
    /// True if the second split matches the character at `at`: `[一-龥぀-ゟ゠-ヿ]`.
    #[inline]
    pub(super) fn is_east_asian(text: &[u8], at: usize) -> bool {
        matches!(text.get(at), Some(0xE3..=0xE9))
            && matches!(decode(text, at).0, 0x3040..=0x30FF | 0x4E00..=0x9FA5)
    }

    /// The end of the match that begins at `start`, if there is one.
    fn matched(text: Stretch<'_>, start: usize) -> Option<usize> {
        let byte = text.byte(start);
        if byte.is_ascii_punctuation() && text.byte(start + 1).is_ascii_alphabetic() {
            let mut end = start + 2;
            while text.byte(end).is_ascii_alphabetic() {
                end += 1;
            }
            return Some(end);
        }
        let (first, length) = text.peek(start);
        let next = start + length;
        let word = LETTER | MARK;
        if first & (NEWLINE | LETTER | SIGN) == 0 {
            let end = text.run(next, word);
            if end > next {
                return Some(end);
            }
        }
        if first & word != 0 {
            return Some(text.run(next, word));
        }
        let at = start + usize::from(byte == b' ');
        let signs = text.run(at, SIGN);
        if signs > at {
            return Some(text.run(signs, NEWLINE));
        }
        (first & SPACE != 0).then(|| text.whitespace(start, true))
    }
}

impl Scanner for DeepSeek {
    #[inline]
    fn piece_end(&self, text: Stretch<'_>, start: usize) -> usize {
        if let Some(end) = Self::matched(text, start) {
            return end;
        }
        // Text that no alternative matches is one piece, up to the next match.
        let mut at = start + text.peek(start).1;
        while at < text.end() && Self::matched(text, at).is_none() {
            at += text.peek(at).1;
        }
        at
    }
}

/// The end of the region that begins at `start`, and whether it is already a piece.
pub(super) fn region(text: &[u8], start: usize) -> (usize, bool) {
    let stretch = Stretch::new(text);
    let numbers = stretch.run_at_most(start, NUMBER, 3);
    if numbers > start {
        return (numbers, true);
    }
    let mut at = start;
    while DeepSeek::is_east_asian(text, at) {
        at += 3;
    }
    if at > start {
        return (at, true);
    }
    loop {
        let (found, length) = stretch.peek(at);
        if length == 0 || found & NUMBER != 0 || DeepSeek::is_east_asian(text, at) {
            return (at, false);
        }
        at += length;
    }
}
