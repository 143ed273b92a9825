//! Reads a text by character classes, for all scanners.

use crate::unicode::{self, Class, CodePointTable};

/// A set of classes, one bit each.
pub(crate) type Set = u16;

/// The set that holds one class.
const fn set(class: Class) -> Set {
    1 << class as u16
}

/// `\p{L}`
pub(crate) const LETTER: Set = set(Class::Upper)
    | set(Class::Lower)
    | set(Class::Title)
    | set(Class::Modifier)
    | set(Class::Caseless);
/// `\p{M}`
pub(crate) const MARK: Set = set(Class::Mark);
/// `\p{N}`
pub(crate) const NUMBER: Set = set(Class::Number);
/// `[\r\n]`
pub(crate) const NEWLINE: Set = set(Class::Newline);
/// `\s`
pub(crate) const SPACE: Set = set(Class::Space) | NEWLINE;
/// `[\p{P}\p{S}]`
pub(crate) const SIGN: Set = set(Class::Punctuation) | set(Class::Symbol);
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
pub(crate) const UPPERLIKE: Set =
    set(Class::Upper) | set(Class::Title) | set(Class::Modifier) | set(Class::Caseless) | MARK;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
pub(crate) const LOWERLIKE: Set =
    set(Class::Lower) | set(Class::Modifier) | set(Class::Caseless) | MARK;

/// The class of each ASCII character. A test compares it with the table of all code points.
const ASCII: [Set; 128] = {
    let mut sets = [set(Class::Other); 128];
    let mut byte = 0_u8;
    while byte < 128 {
        let class = match byte {
            b'A'..=b'Z' => Class::Upper,
            b'a'..=b'z' => Class::Lower,
            b'0'..=b'9' => Class::Number,
            b'\r' | b'\n' => Class::Newline,
            b'\t' | 0x0B | 0x0C | b' ' => Class::Space,
            b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~' => Class::Symbol,
            b'!'..=b'/' | b':'..=b'@' | b'['..=b'_' | b'{'..=b'}' => Class::Punctuation,
            _ => Class::Other,
        };
        sets[byte as usize] = set(class);
        byte += 1;
    }
    sets
};

/// The code point that begins at `at`, and its length in bytes; `at` is a character boundary before the end.
#[inline]
pub(crate) fn decode(text: &[u8], at: usize) -> (u32, usize) {
    let byte = |offset: usize| u32::from(text.get(at + offset).copied().unwrap_or(0));
    let tail = |offset: usize| byte(offset) & 0x3F;
    match byte(0) {
        first @ 0..0xC0 => (first, 1),
        first @ 0xC0..0xE0 => ((first & 0x1F) << 6 | tail(1), 2),
        first @ 0xE0..0xF0 => ((first & 0x0F) << 12 | tail(1) << 6 | tail(2), 3),
        first => ((first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4),
    }
}

/// A stretch of text that is split on its own: text after its end is not seen.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<'a> {
    text: &'a [u8],
    classes: &'static CodePointTable,
}

impl<'a> Stretch<'a> {
    /// Makes a stretch; `text` is UTF-8, and its end is the end of the stretch.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, classes: unicode::classes() }
    }

    /// The end of the stretch.
    #[inline]
    pub(crate) fn end(self) -> usize {
        self.text.len()
    }

    /// The byte at `at`, or 0 at the end.
    #[inline]
    pub(crate) fn byte(self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// The class of the character at `at` as a set, and its length; the empty set at the end.
    #[inline]
    pub(crate) fn peek(self, at: usize) -> (Set, usize) {
        match self.text.get(at) {
            None => (0, 0),
            Some(byte) => match ASCII.get(usize::from(*byte)) {
                Some(set) => (*set, 1),
                None => self.peek_wide(at),
            },
        }
    }

    fn peek_wide(self, at: usize) -> (Set, usize) {
        let (code_point, length) = decode(self.text, at);
        (1 << u16::from(self.classes.get(code_point)), length)
    }

    /// The end of the longest run of characters in `set` that begins at `at`.
    #[inline]
    pub(crate) fn run(self, mut at: usize, set: Set) -> usize {
        loop {
            let (found, length) = self.peek(at);
            if found & set == 0 {
                return at;
            }
            at += length;
        }
    }

    /// The end of a run of at most `most` characters in `set` that begins at `at`.
    #[inline]
    pub(crate) fn run_at_most(self, mut at: usize, set: Set, most: u32) -> usize {
        for _ in 0..most {
            let (found, length) = self.peek(at);
            if found & set == 0 {
                break;
            }
            at += length;
        }
        at
    }

    /// The end of `\s*[\r\n]+|\s+(?!\S)|\s+` at `start`, where whitespace begins; if not `newlines`, without
    /// the first alternative.
    pub(crate) fn whitespace(self, start: usize, newlines: bool) -> usize {
        let (mut at, mut last, mut after_newline) = (start, start, None);
        loop {
            let (found, length) = self.peek(at);
            if found & SPACE == 0 {
                break;
            }
            last = at;
            at += length;
            if found & NEWLINE != 0 {
                after_newline = Some(at);
            }
        }
        match after_newline {
            Some(end) if newlines => end,
            _ if at == self.end() || last == start => at,
            _ => last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ascii_classes_are_those_of_the_table() {
        for (code_point, found) in (0..).zip(ASCII) {
            assert_eq!(
                found,
                1 << u16::from(unicode::classes().get(code_point)),
                "{code_point:#x}"
            );
        }
    }

    #[test]
    fn every_character_is_decoded() {
        for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
            let mut bytes = [0; 4];
            let text = c.encode_utf8(&mut bytes).as_bytes();
            assert_eq!(decode(text, 0), (u32::from(c), text.len()));
        }
    }
}
