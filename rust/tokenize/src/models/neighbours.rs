//! Pairs of adjacent characters in tokens. A text can be cut between two characters that form no such pair.

use std::ops::RangeInclusive;

/// Bits of the filter for each pair of characters: the rate of false positives is a few percent.
const BITS_OF_PAIR: usize = 16;

/// The logarithms of the fewest and most bits of the filter: a smaller filter stays in nearer caches.
const BITS: RangeInclusive<u32> = 10..=20;

/// The number of ASCII characters.
const ASCII: usize = 128;

/// The number of code points.
const CODE_POINTS: usize = 0x11_0000;

/// The pairs of characters that are neighbours in some token.
///
/// A few other pairs count as neighbours too: those outside ASCII are kept as hashes.
pub(crate) struct Neighbours {
    /// For each pair of ASCII characters, whether one follows the other in some token.
    ascii: Box<[bool]>,
    /// A filter over all other pairs of characters.
    wide: PairFilter,
    /// A bit for each code point that has a token, if adjacent characters without one belong together.
    known: Option<Box<[u64]>>,
}

/// A bit for each hash of a pair of code points; several pairs can share a bit.
struct PairFilter {
    words: Box<[u64]>,
    /// The right shift that turns a hash into the index of its bit.
    shift: u32,
}

impl PairFilter {
    fn new(pairs: &[(u32, u32)]) -> Self {
        let bits = (pairs.len() * BITS_OF_PAIR).next_power_of_two().ilog2();
        let bits = bits.clamp(*BITS.start(), *BITS.end());
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

    /// Tests a pair; false positives are possible.
    #[inline]
    fn has(&self, left: u32, right: u32) -> bool {
        let (place, bit) = self.place(left, right);
        self.words[place] & bit != 0
    }
}

impl Neighbours {
    /// The neighbours in `pairs` of code points.
    pub(crate) fn new(pairs: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut ascii = vec![false; ASCII * ASCII].into_boxed_slice();
        let mut wide = Vec::new();
        for (left, right) in pairs {
            if left < 128 && right < 128 {
                ascii[left as usize * ASCII + right as usize] = true;
            } else {
                wide.push((left, right));
            }
        }
        Self { ascii, wide: PairFilter::new(&wide), known: None }
    }

    /// Makes an ASCII character the neighbour of all others of ASCII.
    pub(crate) fn join_ascii(&mut self, byte: u8) {
        let index = usize::from(byte);
        self.ascii[index * ASCII..][..ASCII].fill(true);
        self.ascii.iter_mut().skip(index).step_by(ASCII).for_each(|joined| *joined = true);
    }

    /// Makes neighbours of any two characters that have no token, given those that have one.
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

    /// Tests a pair of characters without tokens, which become one unknown token.
    #[inline]
    fn are_unknown(&self, left: u32, right: u32) -> bool {
        let Some(known) = &self.known else { return false };
        let is_unknown =
            |code_point: u32| known[code_point as usize / 64] >> (code_point % 64) & 1 == 0;
        is_unknown(left) && is_unknown(right)
    }

    /// Tests a pair of ASCII characters.
    #[inline]
    pub(crate) fn joins_ascii(&self, left: u8, right: u8) -> bool {
        self.ascii.get(usize::from(left) * ASCII + usize::from(right)).is_none_or(|joins| *joins)
    }

    /// Tests a pair of characters; false positives are possible outside ASCII.
    #[inline]
    pub(crate) fn joins(&self, left: u32, right: u32) -> bool {
        if left < 128 && right < 128 {
            return self.ascii[left as usize * ASCII + right as usize];
        }
        self.wide.has(left, right) || self.are_unknown(left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_and_hardly_any_others_do() {
        let pairs = || (0..2000).map(|at| (0x4E00 + at, 0x4E01 + at % 100)).chain([(97, 98)]);
        let mut neighbours = Neighbours::new(pairs());
        assert!(pairs().all(|(left, right)| neighbours.joins(left, right)));
        let others = || (0..2000).map(|at| (0x3040 + at, 0x4E01 + at % 100));
        let joined = others().filter(|(left, right)| neighbours.joins(*left, *right)).count();
        assert!(joined < 200, "{joined}");
        assert!(!neighbours.joins(98, 97) && !neighbours.joins_ascii(b'b', b'a'));
        neighbours.join_unknown([97, 0x4E00].into_iter());
        assert!(neighbours.joins(98, 98) && neighbours.joins(98, 0x3040));
        assert!(!neighbours.joins(98, 97) && !neighbours.joins(97, 97));
        neighbours.join_ascii(b'a');
        assert!((0..128).all(|other| neighbours.joins(97, other) && neighbours.joins(other, 97)));
    }
}
