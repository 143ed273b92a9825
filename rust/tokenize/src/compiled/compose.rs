//! NFC and NFKC: nearly all text is composed already, and the rest goes through the reference's own normalizer.

use std::ops::Range;

use tokenizers::normalizer::Range as Side;
use tokenizers::normalizers::{NFC, NFKC};
use tokenizers::{NormalizedString, Normalizer};

use crate::split::decode;
use crate::unicode::{self, Composition, Table};

/// A composing normalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Composer {
    /// Canonical composition.
    Nfc,
    /// Compatibility composition.
    Nfkc,
}

/// A composed stretch, and where its bytes come from.
#[derive(Default)]
pub(crate) struct Composed {
    /// The text.
    pub(crate) text: String,
    /// For each byte of `text`, the range of the original text that it comes from.
    pub(crate) sources: Vec<Range<usize>>,
}

impl Composer {
    fn table(self) -> &'static Table {
        match self {
            Self::Nfc => unicode::canonical(),
            Self::Nfkc => unicode::compatibility(),
        }
    }

    /// The first part of `text` from `from` on that may change: it begins with the last character before the
    /// change that is unmoved, and ends before the next such character.
    fn affected(self, text: &str, from: usize) -> Option<Range<usize>> {
        let table = self.table();
        let bytes = text.as_bytes();
        let (mut at, mut start, mut after_mark, mut found) = (from, from, false, false);
        while let Some(byte) = bytes.get(at) {
            if byte.is_ascii() {
                if found {
                    return Some(start..at);
                }
                let run = bytes[at..].iter().position(|byte| !byte.is_ascii());
                at = run.map_or(bytes.len(), |run| at + run);
                (start, after_mark) = (at - 1, false);
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

    /// The composed form of `text`, or `None` if it is composed already. `offset` is where `text` stands in the
    /// original; `sources` says whether to tell where the bytes come from.
    pub(crate) fn compose(self, text: &str, offset: usize, sources: bool) -> Option<Composed> {
        let mut affected = self.affected(text, 0)?;
        let mut composed = Composed::default();
        let mut done = 0;
        loop {
            composed.keep(&text[done..affected.start], offset + done, sources);
            let mut string = NormalizedString::from(&text[affected.clone()]);
            let result = match self {
                Self::Nfc => NFC.normalize(&mut string),
                Self::Nfkc => NFKC.normalize(&mut string),
            };
            result.expect("composing has no way to fail");
            composed.text.push_str(string.get());
            if sources {
                composed.sources.extend((0..string.get().len()).map(|byte| {
                    let source =
                        string.convert_offsets(Side::Normalized(byte..=byte)).unwrap_or_default();
                    offset + affected.start + source.start..offset + affected.start + source.end
                }));
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

impl Composed {
    /// Appends text as it is.
    fn keep(&mut self, text: &str, offset: usize, sources: bool) {
        self.text.push_str(text);
        if sources {
            for (at, c) in text.char_indices() {
                let source = offset + at..offset + at + c.len_utf8();
                self.sources.extend(std::iter::repeat_n(source, c.len_utf8()));
            }
        }
    }
}

/// The composed form of a whole text, as the reference makes it.
pub(crate) fn composed(composer: Composer, text: &str) -> String {
    composer.compose(text, 0, false).map_or_else(|| text.to_owned(), |composed| composed.text)
}
