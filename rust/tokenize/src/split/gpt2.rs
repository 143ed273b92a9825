//! GPT-2's pattern: ``'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+``.

use super::contraction::Contraction;
use super::split_cursor::Scanner;
use super::text::{LETTER, NUMBER, SPACE, Stretch};
use super::window::{AsciiPattern, AsciiRules, WindowedScanner};

/// The scanner of GPT-2's pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpt2;

impl Scanner for Gpt2 {
    #[inline]
    fn piece_end(&self, text: Stretch<'_>, start: usize) -> usize {
        if let Some(end) = Contraction::Sensitive.end(text, start) {
            return end;
        }
        let at = start + usize::from(text.byte(start) == b' ');
        let (found, length) = text.peek(at);
        match found {
            // At the end of the text, this is a single space.
            0 => at,
            _ if found & LETTER != 0 => text.run(at + length, LETTER),
            _ if found & NUMBER != 0 => text.run(at + length, NUMBER),
            _ if found & SPACE != 0 => text.whitespace(start, false),
            _ => text.run(at + length, !(LETTER | NUMBER | SPACE)),
        }
    }
}

impl WindowedScanner for Gpt2 {
    fn rules(&self) -> AsciiRules {
        AsciiRules {
            shape: AsciiPattern::Gpt2,
            contraction: Contraction::Sensitive,
            digits: u32::MAX,
        }
    }
}
