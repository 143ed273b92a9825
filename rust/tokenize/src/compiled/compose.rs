//! NFC and NFKC: nearly all text is composed already, and the rest goes through the reference's own normalizer.

use std::ops::Range;

use tokenizers::normalizers::{NFC, NFKC};

use super::normalize::Normalized;
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
    pub(crate) fn compose(self, text: &str, offset: usize, sources: bool) -> Option<Normalized> {
        let mut affected = self.affected(text, 0)?;
        let mut composed = Normalized::default();
        let mut done = 0;
        loop {
            composed.keep(&text[done..affected.start], offset + done, sources);
            let (part, start) = (&text[affected.clone()], offset + affected.start);
            match self {
                Self::Nfc => composed.ask(&NFC, part, start, sources),
                Self::Nfkc => composed.ask(&NFKC, part, start, sources),
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
