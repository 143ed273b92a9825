//! The pattern of o200k, Llama 4 and Tekken: words are cut where lower case turns to upper case.

use super::contraction::Contraction;
use super::split_cursor::Scanner;
use super::text::{LETTER, LOWERLIKE, NEWLINE, NUMBER, SPACE, Set, Stretch, UPPERLIKE};
use super::window::{AsciiPattern, AsciiRules, WindowedScanner};

/// Punctuation in this pattern, including marks.
const SIGN: Set = !(LETTER | NUMBER | SPACE);

/// The scanner of this pattern and its variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct O200k {
    /// The contractions that stay with the word before them.
    pub(crate) contraction: Contraction,
    /// The most digits of a piece.
    pub(crate) digits: u32,
}

impl O200k {
    /// `[UPPERLIKE]*[LOWERLIKE]+` from `start`.
    ///
    /// The first class matches as many characters as it can, then gives back one at a time until the second
    /// class follows.
    #[inline]
    fn lower_word(text: Stretch<'_>, start: usize) -> Option<usize> {
        let (mut at, mut last_end) = (start, None);
        loop {
            let (found, length) = text.peek(at);
            if found & UPPERLIKE == 0 {
                if found & LOWERLIKE != 0 {
                    return Some(text.run(at + length, LOWERLIKE));
                }
                return last_end;
            }
            at += length;
            if found & LOWERLIKE != 0 {
                last_end = Some(at);
            }
        }
    }

    /// `[UPPERLIKE]+[LOWERLIKE]*` from `start`.
    #[inline]
    fn upper_word(text: Stretch<'_>, start: usize) -> Option<usize> {
        let end = text.run(start, UPPERLIKE);
        (end > start).then(|| text.run(end, LOWERLIKE))
    }

    #[inline]
    fn word(text: Stretch<'_>, start: usize) -> Option<usize> {
        let (first, length) = text.peek(start);
        if first & (LETTER | NUMBER | NEWLINE) != 0 {
            return Self::lower_word(text, start).or_else(|| Self::upper_word(text, start));
        }
        let next = start + length;
        if text.peek(next).0 & (UPPERLIKE | LOWERLIKE) == 0 && first & UPPERLIKE == 0 {
            return None;
        }
        Self::lower_word(text, next)
            .or_else(|| Self::lower_word(text, start))
            .or_else(|| Self::upper_word(text, next))
            .or_else(|| Self::upper_word(text, start))
    }
}

impl Scanner for O200k {
    #[inline]
    fn piece_end(&self, text: Stretch<'_>, start: usize) -> usize {
        if let Some(end) = Self::word(text, start) {
            return self.contraction.end(text, end).unwrap_or(end);
        }
        let (first, length) = text.peek(start);
        if first & NUMBER != 0 {
            return text.run_at_most(start + length, NUMBER, self.digits - 1);
        }
        let at = start + usize::from(text.byte(start) == b' ');
        let signs = text.run(at, SIGN);
        if signs > at {
            let mut end = signs;
            while matches!(text.byte(end), b'\r' | b'\n' | b'/') {
                end += 1;
            }
            return end;
        }
        text.whitespace(start, true)
    }
}

impl WindowedScanner for O200k {
    fn rules(&self) -> AsciiRules {
        AsciiRules {
            shape: AsciiPattern::O200k,
            contraction: self.contraction,
            digits: self.digits,
        }
    }
}
