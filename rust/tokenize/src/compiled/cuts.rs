//! Places where a long piece can be cut in two without changing its ids.
//!
//! A merge across a boundary makes a token that contains the two neighbouring characters in this order. If no
//! token contains them so, nothing is ever merged across the boundary, and the two sides can be encoded
//! apart.

use crate::split::decode;

/// Bits of the filter for each pair of characters: the rate of false positives is a few percent.
const BITS_OF_PAIR: usize = 16;

/// The logarithm of the most bits of the filter: a smaller filter stays in nearer caches.
const MOST_BITS: u32 = 20;

/// The number of ASCII characters.
const ASCII: usize = 128;

/// The pairs of characters that are neighbours in some token.
pub(crate) struct Cuts {
    /// For each pair of ASCII characters, whether one follows the other in some token.
    ascii: Box<[bool]>,
    /// A filter over all other pairs of whole characters.
    wide: Filter,
    /// For each last byte of a character, the first bytes of characters that follow it in a token that holds
    /// only a part of one of the two characters.
    partial: Box<[[u64; 4]; 256]>,
    /// A bit for each code point that has a token, if adjacent characters without one belong together.
    known: Option<Box<[u64]>>,
    /// Whether the text is cut before every space.
    before_spaces: bool,
}

/// The number of code points.
const CODE_POINTS: usize = 0x11_0000;

/// A bit for each hash of a pair of code points; several pairs can share a bit.
struct Filter {
    words: Box<[u64]>,
    /// The right shift that turns a hash into the index of its bit.
    shift: u32,
}

impl Filter {
    fn new(pairs: &[(u32, u32)]) -> Self {
        let bits = (pairs.len() * BITS_OF_PAIR).next_power_of_two().ilog2().clamp(6, MOST_BITS);
        let words = vec![0; 1 << (bits - 6)].into_boxed_slice();
        let mut filter = Self { words, shift: u64::BITS - bits };
        for (left, right) in pairs {
            let (place, bit) = filter.place(*left, *right);
            filter.words[place] |= bit;
        }
        filter
    }

    #[inline]
    fn place(&self, left: u32, right: u32) -> (usize, u64) {
        let mixed = (u64::from(left) << 21 | u64::from(right)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bit = mixed >> self.shift;
        let place = (bit / 64) as usize;
        (place, 1 << (bit % 64))
    }

    /// Whether the pair may be in the filter; false positives are possible.
    #[inline]
    fn has(&self, left: u32, right: u32) -> bool {
        let (place, bit) = self.place(left, right);
        self.words[place] & bit != 0
    }
}

impl Cuts {
    /// Collects the pairs of neighbours in `tokens`.
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut cuts = Self {
            ascii: vec![false; ASCII * ASCII].into_boxed_slice(),
            wide: Filter::new(&[]),
            partial: Box::new([[0; 4]; 256]),
            known: None,
            before_spaces: false,
        };
        let mut pairs = Vec::new();
        for token in tokens {
            cuts.add(token, &mut pairs);
        }
        cuts.wide = Filter::new(&pairs);
        cuts
    }

    /// Adds the pairs of neighbours in a token; pairs that are not both ASCII go into `pairs`.
    fn add(&mut self, token: &[u8], pairs: &mut Vec<(u32, u32)>) {
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
                        pairs.push((left, code_point));
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

    /// Forbids cuts next to a byte that gives no id: the bytes on its two sides can be merged.
    pub(crate) fn forbid(&mut self, byte: u8) {
        let index = usize::from(byte);
        self.partial[index] = [u64::MAX; 4];
        for first in self.partial.iter_mut() {
            first[index / 64] |= 1 << (index % 64);
        }
        if byte.is_ascii() {
            self.ascii[index * ASCII..][..ASCII].fill(true);
            self.ascii.iter_mut().skip(index).step_by(ASCII).for_each(|joined| *joined = true);
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
        let mut known = vec![0_u64; CODE_POINTS / 64].into_boxed_slice();
        for code_point in with_token {
            known[code_point as usize / 64] |= 1 << (code_point % 64);
        }
        let is_unknown = |character: usize| known[character / 64] >> (character % 64) & 1 == 0;
        for (pair, joined) in self.ascii.iter_mut().enumerate() {
            *joined |= is_unknown(pair / ASCII) && is_unknown(pair % ASCII);
        }
        self.known = Some(known);
    }

    /// Whether two characters without a token belong together.
    #[inline]
    fn are_unknown(&self, left: u32, right: u32) -> bool {
        let Some(known) = &self.known else { return false };
        let is_unknown =
            |code_point: u32| known[code_point as usize / 64] >> (code_point % 64) & 1 == 0;
        is_unknown(left) && is_unknown(right)
    }

    /// Whether some token has one ASCII character after the other.
    #[inline]
    pub(crate) fn joins(&self, left: u8, right: u8) -> bool {
        self.ascii.get(usize::from(left) * ASCII + usize::from(right)).is_none_or(|joins| *joins)
    }

    /// Whether a cut between two characters changes no id; `last` and `first` are the bytes on both sides.
    fn is_safe(&self, left: u32, right: u32, last: u8, first: u8) -> bool {
        if left < 128 && right < 128 {
            return !self.ascii[left as usize * ASCII + right as usize];
        }
        if right == u32::from(b' ') && self.before_spaces {
            return true;
        }
        !self.wide.has(left, right)
            && !self.are_unknown(left, right)
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
                        if !self.ascii[usize::from(last) * ASCII + usize::from(*byte)] {
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
