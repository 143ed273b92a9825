//! NFC and NFKC: nearly all text is composed already, and the rest goes through the reference's own
//! normalizer, or through the functions that this one calls.

use std::ops::Range;
use std::sync::LazyLock;

use tokenizers::normalizers::{NFC, NFKC};
use unicode_normalization_alignments::UnicodeNormalization;

use super::normalized::Normalized;
use crate::split::decode;
use crate::unicode::{self, CodePointTable, Composition};

/// For each byte value, whether it begins an inert character or continues a character: most text has only
/// such bytes.
struct InertBytes([bool; 256]);

impl InertBytes {
    fn new(table: &CodePointTable) -> Self {
        let all = |mut range: Range<u32>| {
            range.all(|code_point| table.get(code_point) == Composition::Inert as u8)
        };
        let mut inert = [true; 256];
        for (first, inert) in (0..).zip(&mut inert) {
            *inert = match first {
                0..0xC0 => true,
                0xC0..0xE0 => all((first & 0x1F) << 6..((first & 0x1F) + 1) << 6),
                0xE0..0xF0 => all((first & 0x0F) << 12..((first & 0x0F) + 1) << 12),
                _ => false,
            };
        }
        Self(inert)
    }

    #[inline]
    fn is_inert(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }

    /// The start of the first character from `at` on that may not be inert.
    fn end(&self, bytes: &[u8], at: usize) -> usize {
        let (chunks, rest) = bytes[at..].as_chunks::<32>();
        let other = |bytes: &[u8]| bytes.iter().position(|byte| !self.is_inert(*byte));
        for (index, chunk) in chunks.iter().enumerate() {
            if !chunk.is_ascii()
                && let Some(found) = other(chunk)
            {
                return at + index * chunk.len() + found;
            }
        }
        other(rest).map_or(bytes.len(), |found| bytes.len() - rest.len() + found)
    }
}

/// A composing normalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Composer {
    /// Canonical composition.
    Nfc,
    /// Compatibility composition.
    Nfkc,
}

impl Composer {
    fn table(self) -> &'static CodePointTable {
        match self {
            Self::Nfc => unicode::canonical(),
            Self::Nfkc => unicode::compatibility(),
        }
    }

    fn inert_bytes(self) -> &'static InertBytes {
        static CANONICAL: LazyLock<InertBytes> =
            LazyLock::new(|| InertBytes::new(unicode::canonical()));
        static COMPATIBILITY: LazyLock<InertBytes> =
            LazyLock::new(|| InertBytes::new(unicode::compatibility()));
        match self {
            Self::Nfc => &CANONICAL,
            Self::Nfkc => &COMPATIBILITY,
        }
    }

    /// The first part of `text` from `from` on that may change. It begins with the last unmoved character
    /// before the change, and ends before the next unmoved character.
    fn affected(self, text: &str, from: usize) -> Option<Range<usize>> {
        let (table, inert) = (self.table(), self.inert_bytes());
        let bytes = text.as_bytes();
        let (mut at, mut start, mut after_mark, mut found) = (from, from, false, false);
        while at < bytes.len() {
            if inert.is_inert(bytes[at]) {
                if found {
                    return Some(start..at);
                }
                at = inert.end(bytes, at);
                let last = (start..at).rev().find(|at| text.is_char_boundary(*at));
                (start, after_mark) = (last.unwrap_or(start), false);
                continue;
            }
            let (code_point, length) = decode(bytes, at);
            let value = table.get(code_point);
            if value == Composition::Inert as u8 {
                if found {
                    return Some(start..at);
                }
                (start, after_mark) = (at, false);
            } else {
                found |= value != Composition::Mark as u8 || after_mark;
                after_mark = true;
            }
            at += length;
        }
        found.then_some(start..at)
    }

    /// The composed form of `text`, or `None` if it is composed already. `offset` is the start of `text` in
    /// the original; `sources` asks for the source range of each byte.
    pub(crate) fn compose(self, text: &str, offset: usize, sources: bool) -> Option<Normalized> {
        let mut affected = self.affected(text, 0)?;
        let mut composed = Normalized::default();
        let mut done = 0;
        loop {
            composed.keep(&text[done..affected.start], offset + done, sources);
            let (part, start) = (&text[affected.clone()], offset + affected.start);
            match self {
                Self::Nfc if sources => composed.ask(&NFC, part, start, true),
                Self::Nfkc if sources => composed.ask(&NFKC, part, start, true),
                Self::Nfc => composed.text.extend(part.nfc().map(|(c, _)| c)),
                Self::Nfkc => composed.text.extend(part.nfkc().map(|(c, _)| c)),
            }
            done = affected.end;
            match self.affected(text, done) {
                Some(next) => affected = next,
                None => break,
            }
        }
        composed.keep(&text[done..], offset + done, sources);
        Some(composed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_composed_text_is_what_the_reference_makes_of_it(
            text in "([a-z ]{0,70}|[\u{400}-\u{4FF}]{0,20}|[\u{E0}-\u{FF}e\u{300}-\u{345}]{0,4}|[\u{3000}-\u{30FF}\u{4E00}-\u{4E10}]{0,20}|[\u{1100}-\u{11FF}가-각]{0,4}|[\u{FB00}-\u{FB06}\u{FF21}-\u{FF2A}\u{1F600}\u{1D400}\u{2F800}]{0,4}){0,6}"
        ) {
            for composer in [Composer::Nfc, Composer::Nfkc] {
                let mut expected = Normalized::default();
                match composer {
                    Composer::Nfc => expected.ask(&NFC, &text, 0, false),
                    Composer::Nfkc => expected.ask(&NFKC, &text, 0, false),
                }
                let composed = composer.compose(&text, 0, false);
                let composed_text = composed.map_or_else(|| text.clone(), |composed| composed.text);
                prop_assert_eq!(&composed_text, &expected.text);
            }
        }
    }

    #[test]
    fn most_letters_are_inert() {
        let inert = Composer::Nfc.inert_bytes();
        for letter in ["a", "é", "д", "中", "북"] {
            assert_eq!(inert.end(letter.as_bytes(), 0), letter.len(), "{letter}");
        }
        for other in ["\u{301}", "が", "’", "😀"] {
            let text = format!("{}д{other}", "a".repeat(31));
            assert_eq!(inert.end(text.as_bytes(), 0), text.len() - other.len(), "{other}");
        }
    }
}
