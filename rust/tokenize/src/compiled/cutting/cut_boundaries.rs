//! Places where a long piece can be cut in two without changing its ids.
//!
//! A merge across a boundary makes a token that contains the two neighbouring characters in this order. If no
//! token contains them so, nothing is ever merged across the boundary, and the two sides can be encoded
//! apart.

use crate::models::neighbours::Neighbours;
use crate::split::decode;

/// The boundaries across which some token goes.
pub(crate) struct CutBoundaries {
    /// The pairs of whole characters.
    neighbours: Neighbours,
    /// For each last byte of a character, the first bytes of characters that follow it in a token that holds
    /// only a part of one of the two characters.
    partial: Box<[[u64; 4]; 256]>,
    /// Forces a cut before every space.
    before_spaces: bool,
}

impl CutBoundaries {
    /// Collects the pairs of neighbours in `tokens`.
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut partial = Box::new([[0_u64; 4]; 256]);
        let mut pairs = Vec::new();
        for token in tokens {
            collect(token, &mut pairs, &mut partial);
        }
        let neighbours = Neighbours::new(pairs.into_iter());
        Self { neighbours, partial, before_spaces: false }
    }

    /// Forbids cuts next to a byte that gives no id: the bytes on its two sides can be merged.
    pub(crate) fn forbid(&mut self, byte: u8) {
        let index = usize::from(byte);
        self.partial[index] = [u64::MAX; 4];
        for first in self.partial.iter_mut() {
            first[index / 64] |= 1 << (index % 64);
        }
        if byte.is_ascii() {
            self.neighbours.join_ascii(byte);
        }
    }

    /// Cuts before every space. No token may have a space after another character.
    ///
    /// Without this, a pair that shares its bit of the filter with another one would not be cut.
    pub(crate) fn cut_before_spaces(&mut self) {
        self.before_spaces = true;
    }

    /// Forbids cuts between two characters that have no token, given those that have one.
    pub(crate) fn join_unknown(&mut self, with_token: impl Iterator<Item = u32>) {
        self.neighbours.join_unknown(with_token);
    }

    /// True if some token has one ASCII character after the other.
    #[inline]
    pub(crate) fn joins(&self, left: u8, right: u8) -> bool {
        self.neighbours.joins_ascii(left, right)
    }

    /// True if a cut between two characters changes no id; `last` and `first` are the bytes on both sides.
    fn is_safe(&self, left: u32, right: u32, last: u8, first: u8) -> bool {
        if right == u32::from(b' ') && self.before_spaces {
            return true;
        }
        !self.neighbours.joins(left, right)
            && (self.partial[usize::from(last)][usize::from(first / 64)] >> (first % 64)) & 1 == 0
    }

    /// The first safe cut in `text` after `start`, or the end of `text`. With `SPACE`, `▁` counts as a space.
    #[inline]
    pub(crate) fn next<const SPACE: bool>(&self, text: &[u8], start: usize) -> usize {
        let read = |at: usize| {
            let (code_point, length) = decode(text, at);
            if SPACE && code_point == 0x2581 { (0x20, length) } else { (code_point, length) }
        };
        let mut at = start;
        // The character at `at`, if it has been decoded already.
        let mut known = None;
        loop {
            // ASCII takes one byte and one look-up at a time.
            let mut last = text[at];
            while last.is_ascii() {
                at += 1;
                match text.get(at) {
                    Some(byte) if byte.is_ascii() => {
                        if !self.joins(last, *byte) {
                            return at;
                        }
                        last = *byte;
                    }
                    Some(_) => break,
                    None => return at,
                }
            }
            let mut left = u32::from(last);
            if !last.is_ascii() {
                let (code_point, length) = known.unwrap_or_else(|| read(at));
                at += length;
                if at >= text.len() {
                    return text.len();
                }
                left = code_point;
            }
            let right = read(at);
            if self.is_safe(left, right.0, text[at - 1], text[at]) {
                return at;
            }
            known = Some(right);
        }
    }
}

/// Adds the pairs of neighbours in a token to `pairs`, and the bytes around a boundary at which the token holds only a
/// part of a character to `partial`.
fn collect(token: &[u8], pairs: &mut Vec<(u32, u32)>, partial: &mut [[u64; 4]; 256]) {
    let mut left: Option<u32> = None;
    let mut at = 0;
    while at < token.len() {
        let (code_point, length) = decode(token, at);
        let is_character = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let whole = token[at].is_ascii() || token.get(at..at + length).is_some_and(is_character);
        let boundary = at > 0 && token[at] & 0xC0 != 0x80;
        match left {
            Some(left) if whole && boundary => pairs.push((left, code_point)),
            _ if boundary => {
                let (before, first) = (token[at - 1], token[at]);
                partial[usize::from(before)][usize::from(first / 64)] |= 1 << (first % 64);
            }
            _ => {}
        }
        left = whole.then_some(code_point);
        at += if whole { length } else { 1 };
    }
}
