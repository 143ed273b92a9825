//! The pattern of cl100k, Llama 3 and Qwen:
//! `(?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.

use super::contraction::Contraction;
use super::split_cursor::Scanner;
use super::text::{LETTER, MARK, NEWLINE, NUMBER, SPACE, Stretch};
use super::window::{AsciiPattern, AsciiRules, WindowedScanner};

/// The scanner of this pattern and its variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cl100k {
    /// The contractions that are pieces of their own.
    pub(crate) contraction: Contraction,
    /// The most digits of a piece.
    pub(crate) digits: u32,
    /// True if marks belong to words (Qwen 3.5) and not to punctuation.
    pub(crate) marks: bool,
}

impl Scanner for Cl100k {
    #[inline]
    fn piece_end(&self, text: Stretch<'_>, start: usize) -> usize {
        let word = if self.marks { LETTER | MARK } else { LETTER };
        let (first, length) = text.peek(start);
        let next = start + length;
        if first & word != 0 {
            return text.run(next, word);
        }
        if first & NUMBER != 0 {
            return text.run_at_most(next, NUMBER, self.digits - 1);
        }
        if let Some(end) = self.contraction.end(text, start) {
            return end;
        }
        let (second, second_length) = text.peek(next);
        if first & NEWLINE == 0 && second & word != 0 {
            return text.run(next + second_length, word);
        }
        let sign = !(word | NUMBER | SPACE);
        if first & sign != 0 {
            return text.run(text.run(next, sign), NEWLINE);
        }
        if text.byte(start) == b' ' && second & sign != 0 {
            return text.run(text.run(next + second_length, sign), NEWLINE);
        }
        text.whitespace(start, true)
    }
}

impl WindowedScanner for Cl100k {
    fn rules(&self) -> AsciiRules {
        AsciiRules {
            shape: AsciiPattern::Cl100k,
            contraction: self.contraction,
            digits: self.digits,
        }
    }
}
