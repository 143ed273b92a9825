//! Cuts documents that are longer than a row, or drops them.

use crate::config::{Overlong, PackOptions, Side};

/// The treatment of one document that may be longer than a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlongCut {
    /// These stretches are packed. The tokens outside them are counted as truncated.
    Into(Stretches),
    /// The document is dropped and counted.
    Drop,
    /// The run fails with an error that names the document.
    Refuse,
}

/// Stretches of a document in their order, as (first token, tokens), none longer than a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretches {
    next: u32,
    end: u32,
    most: u32,
}

impl Stretches {
    /// The tokens in the remaining stretches.
    pub fn tokens(&self) -> u32 {
        self.end - self.next
    }
}

impl Iterator for Stretches {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        let length = self.tokens().min(self.most);
        let start = self.next;
        self.next += length;
        (length > 0).then_some((start, length))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let stretches = self.tokens().div_ceil(self.most) as usize;
        (stretches, Some(stretches))
    }
}

impl ExactSizeIterator for Stretches {}

/// Decides how a document of `length` tokens is cut.
///
/// `usual` is the default of `overlong`. `turn_ends` are the places at which the document may be trimmed, as
/// numbers of tokens before each, ascending.
pub fn cut(length: u32, turn_ends: &[u32], options: &PackOptions, usual: Overlong) -> OverlongCut {
    let whole = Stretches { next: 0, end: length, most: length.max(1) };
    let max = options.row_limit().get();
    if length <= max || options.strategy.cuts_at_row_end() {
        return OverlongCut::Into(whole);
    }
    match (options.overlong.unwrap_or(usual), options.truncation_side) {
        (Overlong::Drop, _) => OverlongCut::Drop,
        (Overlong::Truncate, Side::Right) => OverlongCut::Into(Stretches { end: max, ..whole }),
        (Overlong::Truncate, Side::Left) => {
            OverlongCut::Into(Stretches { next: length - max, ..whole })
        }
        (Overlong::Trim, _) => {
            match turn_ends.iter().rev().find(|&&end| (1..=max).contains(&end)) {
                Some(&end) => OverlongCut::Into(Stretches { end, ..whole }),
                None => OverlongCut::Drop,
            }
        }
        (Overlong::Split, _) => OverlongCut::Into(Stretches { most: max, ..whole }),
        (Overlong::Error, _) => OverlongCut::Refuse,
    }
}
