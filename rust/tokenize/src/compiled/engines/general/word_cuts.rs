//! Texts that are cut into words where they stand: before whitespace that follows a letter, a digit or a sign, and
//! between ASCII characters that the first step always parts.

use super::pre_tokenizer_stage::PreTokenizerStage;
use crate::compiled::cutting::alphanumeric::run_end;
use crate::compiled::cutting::windows;
use crate::compiled::cutting::windows::CutPlaces;
use crate::split::{Masks, decode};

/// True if a word can end with a character: no normalizer that keeps words, as
/// [`crate::compiled::normalizers::normalize::Normalizer::keeps_words`] says, removes it or turns it into whitespace.
fn ends_word(code_point: u32) -> bool {
    let Ok(byte) = u8::try_from(code_point) else {
        // Letters of Latin, Greek, Cyrillic, Hebrew, Arabic, Thai and Hangul.
        return matches!(code_point,
            0x100..=0x24F | 0x388..=0x3FF | 0x400..=0x481 | 0x48A..=0x52F | 0x5D0..=0x5EA
            | 0x621..=0x64A | 0xE01..=0xE30 | 0xAC00..=0xD7A3);
    };
    byte.is_ascii_graphic() || byte >= 0xC0
}

/// The number of ASCII characters.
const ASCII: usize = 128;

/// The places at which a text can be cut into words.
pub(super) struct WordEnds {
    /// For each pair of ASCII characters, whether the text is cut between them.
    ascii: Box<[bool; ASCII * ASCII]>,
    /// For each ASCII character, true if the text is cut before it where it follows another character that ends a word.
    wide: Box<[bool; ASCII]>,
    /// True if the first step removes line ends, as it removes spaces.
    lines: bool,
}

impl WordEnds {
    /// The places of a tokenizer whose normalizer keeps words; `None` if its first step does not remove
    /// spaces, or sees the characters behind them.
    pub(super) fn new(first: &PreTokenizerStage) -> Option<Self> {
        let PreTokenizerStage::Remove(step) = first else { return None };
        let automaton = Some(&step.automaton).filter(|it| step.invert && it.looks_nowhere())?;
        let blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let removed = |byte: u8| blank(byte) && automaton.never_takes(byte);
        if !removed(b' ') {
            return None;
        }
        // The normalizer may write small letters.
        let parts = |left: u8, right: u8| {
            let cases = |byte: u8| [byte, byte.to_ascii_lowercase()];
            cases(left).iter().all(|left| cases(right).iter().all(|it| automaton.parts(*left, *it)))
        };
        let mut ends = Self {
            ascii: Box::new([false; ASCII * ASCII]),
            wide: Box::new([false; ASCII]),
            lines: removed(b'\n') && removed(b'\r'),
        };
        for (right, wide) in (0..).zip(ends.wide.iter_mut()) {
            *wide = removed(right);
            for left in (0..).take(ASCII).filter(u8::is_ascii_graphic) {
                let is_end = *wide || right.is_ascii_graphic() && parts(left, right);
                ends.ascii[usize::from(left) * ASCII + usize::from(right)] = is_end;
            }
        }
        Some(ends)
    }
}

impl CutPlaces for WordEnds {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
    fn between(&self, masks: Masks, edges: u64, text: &[u8]) -> u64 {
        let (kept, space) = (masks.letter | masks.digit, masks.space);
        let white = masks.blank | masks.newline;
        let removed = if self.lines { space | masks.newline } else { space };
        // Spaces are always removed, and end no word themselves. Of a run of them, a word takes the last alone: so it
        // is the same word, however far it stands from the one before.
        let last = space & removed << 1 & !(white >> 1) & edges >> 1;
        let found = (space & kept << 1 | last) & edges;
        let candidates = edges & !found & !(kept & kept << 1 | space << 1);
        found
            | windows::cut_bits(candidates, text, |left, right| {
                self.ascii[usize::from(left & 0x7F) * ASCII + usize::from(right & 0x7F)]
            })
    }

    /// The end of the word that begins at `start`.
    #[inline]
    fn next(&self, text: &[u8], start: usize) -> usize {
        let mut at = start;
        loop {
            // Letters and digits are not cut apart where they could be: it would take longer to find out.
            if text[at].is_ascii_alphanumeric() {
                at = run_end(text, at + 1) - 1;
            }
            if at + 1 >= text.len() {
                return text.len();
            }
            let (left, right) = (usize::from(text[at]), usize::from(text[at + 1]));
            at += 1;
            let is_end = if left | right < ASCII {
                self.ascii[left * ASCII + right]
            } else {
                right < ASCII && self.wide[right] && {
                    let first = (start..at).rev().find(|at| text[*at] & 0xC0 != 0x80);
                    first.is_some_and(|first| ends_word(decode(text, first).0))
                }
            };
            if is_end {
                return at;
            }
        }
    }
}
