//! Where a long piece can be cut in two without changing its ids.
//!
//! A merge over a boundary makes a token in which the two characters beside it are neighbours. If no token that can
//! form has them so, nothing is ever merged over the boundary, and the two sides can be encoded apart.

use crate::split::decode;

/// Bits of the filter of character pairs; a pair that is not listed passes for one with a chance of some percent.
const FILTER_BITS: u32 = 20;

/// How many ASCII characters there are.
const ASCII: usize = 128;

/// The neighbours in tokens.
pub(crate) struct Cuts {
    /// For each pair of ASCII characters, whether one follows the other in some token.
    ascii: Box<[bool]>,
    /// A filter of all other pairs of whole characters.
    wide: Box<[u64]>,
    /// For each last byte of a character, which first bytes of characters follow where a token has only a part of
    /// one of the two.
    partial: Box<[[u64; 4]; 256]>,
}

/// The filter's bit for a pair of code points.
fn filter_bit(left: u32, right: u32) -> (usize, u64) {
    let mixed = (u64::from(left) << 21 | u64::from(right)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let bit = mixed >> (64 - FILTER_BITS);
    let place = (bit / 64) as usize;
    (place, 1 << (bit % 64))
}

impl Cuts {
    /// Collects the neighbours in `tokens`.
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut cuts = Self {
            ascii: vec![false; ASCII * ASCII].into_boxed_slice(),
            wide: vec![0; 1 << (FILTER_BITS - 6)].into_boxed_slice(),
            partial: Box::new([[0; 4]; 256]),
        };
        for token in tokens {
            cuts.add(token);
        }
        cuts
    }

    fn add(&mut self, token: &[u8]) {
        let mut left: Option<u32> = None;
        let mut at = 0;
        while at < token.len() {
            let (code_point, length) = decode(token, at);
            let is_character = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
            let whole =
                token[at].is_ascii() || token.get(at..at + length).is_some_and(is_character);
            let boundary = at > 0 && token[at] & 0xC0 != 0x80;
            match left {
                Some(left) if whole && boundary => {
                    if left < 128 && code_point < 128 {
                        self.ascii[left as usize * ASCII + code_point as usize] = true;
                    } else {
                        let (place, bit) = filter_bit(left, code_point);
                        self.wide[place] |= bit;
                    }
                }
                _ if boundary => {
                    let (before, first) = (token[at - 1], token[at]);
                    self.partial[usize::from(before)][usize::from(first / 64)] |= 1 << (first % 64);
                }
                _ => {}
            }
            left = whole.then_some(code_point);
            at += if whole { length } else { 1 };
        }
    }

    /// Whether some token has one ASCII character after the other.
    #[inline]
    pub(crate) fn joins(&self, left: u8, right: u8) -> bool {
        self.ascii.get(usize::from(left) * ASCII + usize::from(right)).is_none_or(|joins| *joins)
    }

    /// Whether the boundary between two characters is safe; `last` and `first` are the bytes beside it.
    fn is_safe(&self, left: u32, right: u32, last: u8, first: u8) -> bool {
        if left < 128 && right < 128 {
            return !self.ascii[left as usize * ASCII + right as usize];
        }
        let (place, bit) = filter_bit(left, right);
        self.wide[place] & bit == 0
            && (self.partial[usize::from(last)][usize::from(first / 64)] >> (first % 64)) & 1 == 0
    }

    /// The first safe boundary in `text` after `start`, or its end. With `SPACE`, `▁` counts as a space.
    #[inline]
    pub(crate) fn next<const SPACE: bool>(&self, text: &[u8], start: usize) -> usize {
        let read = |at: usize| {
            let (code_point, length) = decode(text, at);
            if SPACE && code_point == 0x2581 { (0x20, length) } else { (code_point, length) }
        };
        let mut at = start;
        loop {
            // Through ASCII, one byte and one look-up at a time.
            let mut last = text[at];
            while last.is_ascii() {
                at += 1;
                match text.get(at) {
                    Some(byte) if byte.is_ascii() => {
                        if !self.ascii[usize::from(last) * ASCII + usize::from(*byte)] {
                            return at;
                        }
                        last = *byte;
                    }
                    Some(_) => break,
                    None => return at,
                }
            }
            let (left, right);
            if last.is_ascii() {
                (left, right) = (u32::from(last), read(at).0);
            } else {
                let (code_point, length) = read(at);
                at += length;
                if at >= text.len() {
                    return text.len();
                }
                (left, right) = (code_point, read(at).0);
            }
            if self.is_safe(left, right, text[at - 1], text[at]) {
                return at;
            }
        }
    }
}
