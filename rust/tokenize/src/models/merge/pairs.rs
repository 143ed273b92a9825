//! The table of pairs: the symbol or rank of each pair of symbols that can be merged.

use crate::hardware::{AHEAD, prefetch};

/// The limit of symbols, so that a pair and its value fit into one word. There are always fewer.
pub(crate) const LARGEST_SYMBOLS: usize = 1 << 21;

/// The limit of values, which are ranks of merges.
pub(crate) const LARGEST_MERGES: usize = (1 << 22) - 1;

const SYMBOL_BITS: u32 = 21;
const VALUE_BITS: u32 = 22;

/// A hash multiplier, odd and with well-mixed bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number of pairs in a line.
const WIDTH: usize = 8;

/// The most pairs of a line on average: with more, lines would overflow into the next one too often.
const FILL: usize = 4;

/// A cache line of pairs. A word holds a key, and its value plus one in the lower bits; 0 is a free entry.
/// Used entries come first.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct PairLine([u64; WIDTH]);

/// A hash table whose look-ups read one cache line and compare all of it, because the number of used entries
/// cannot be predicted.
pub(super) struct PairTable {
    lines: Box<[PairLine]>,
    shift: u32,
}

impl PairTable {
    /// The table of pairs and their values; of equal pairs, the last counts.
    pub(super) fn new(pairs: impl Iterator<Item = [u32; 3]> + Clone) -> Self {
        // There are at least two lines: a word cannot be shifted by all of its bits.
        let size = (pairs.clone().count() / FILL + 2).next_power_of_two();
        let shift = 64 - size.trailing_zeros();
        let mut table = Self { lines: vec![PairLine::default(); size].into_boxed_slice(), shift };
        let mut ahead = pairs.clone().skip(AHEAD);
        for [left, right, value] in pairs {
            if let Some([left, right, _]) = ahead.next() {
                table.prefetch(PairKey::new(left, right));
            }
            table.insert(left, right, value);
        }
        table
    }

    #[inline]
    fn place(&self, PairKey(key): PairKey) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the shift leaves no more bits than the size has"
        )]
        let place = (key.wrapping_mul(SPREAD) >> self.shift) as usize;
        place
    }

    fn insert(&mut self, left: u32, right: u32, value: u32) {
        let key = PairKey::new(left, right);
        let mut place = self.place(key);
        let PairKey(key) = key;
        loop {
            let free = |entry: &&mut u64| **entry == 0 || **entry >> VALUE_BITS == key;
            if let Some(entry) = self.lines[place].0.iter_mut().find(free) {
                *entry = key << VALUE_BITS | u64::from(value + 1);
                return;
            }
            place = (place + 1) & (self.lines.len() - 1);
        }
    }

    /// Prefetches the line that [`Self::get`] reads.
    #[inline]
    pub(super) fn prefetch(&self, key: PairKey) {
        prefetch(self.lines.as_ptr().wrapping_add(self.place(key)));
    }

    /// The value of a pair, or `u32::MAX`.
    #[inline]
    pub(super) fn get(&self, key: PairKey) -> u32 {
        let mut place = self.place(key);
        let PairKey(key) = key;
        loop {
            let PairLine(entries) = &self.lines[place & (self.lines.len() - 1)];
            // At most one of the entries is for the pair.
            let found = entries.iter().fold(0, |found, entry| {
                found | if entry >> VALUE_BITS == key { *entry } else { 0 }
            });
            if found != 0 || entries[WIDTH - 1] == 0 {
                let value = (found & ((1 << VALUE_BITS) - 1)) as u32;
                return value.wrapping_sub(1);
            }
            place += 1;
        }
    }
}

/// A pair of symbols, as the table looks it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairKey(u64);

impl PairKey {
    /// The key of no pair: no vocabulary has so many symbols.
    pub(super) const NONE: Self = Self(u64::MAX >> VALUE_BITS);

    /// The key of a pair.
    #[inline]
    pub(super) fn new(left: u32, right: u32) -> Self {
        Self(u64::from(left) << SYMBOL_BITS | u64::from(right))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_pair_has_the_value_that_was_listed_last(
            pairs in prop::collection::vec((0..40_u32, 0..40_u32, 0..1000_u32), 0..300),
            lookups in prop::collection::vec((0..41_u32, 0..41_u32), 50),
        ) {
            // Numbers far apart and near the limits, so that lines are shared by chance only.
            let spread = |symbol: u32| symbol * 52_428;
            let listed = pairs.iter().map(|(left, right, value)| [spread(*left), spread(*right), *value]);
            let table = PairTable::new(listed.clone());
            let known: HashMap<[u32; 2], u32> =
                listed.map(|[left, right, value]| ([left, right], value)).collect();
            for (left, right) in lookups {
                let pair = [spread(left), spread(right)];
                let expected = known.get(&pair).copied().unwrap_or(u32::MAX);
                prop_assert_eq!(table.get(PairKey::new(pair[0], pair[1])), expected);
            }
            prop_assert_eq!(table.get(PairKey::NONE), u32::MAX);
        }
    }

    #[test]
    fn pairs_without_room_in_their_line_are_found_in_the_next() {
        let size = 20;
        let mut table = PairTable::new((0..size).map(|right| [0, right, right]));
        let place = table.place(PairKey::new(0, 0));
        let last = table.lines.len() - 1;
        let crowded = [place, last].map(|place| {
            let at = |right: &u32| table.place(PairKey::new(1, *right)) == place;
            (0..10_000).filter(at).take(2 * WIDTH + 1).collect::<Vec<_>>()
        });
        // The table is emptied, so it has room for all pairs of one crowded line. The line after the last one
        // is the first.
        table.lines.fill(PairLine::default());
        for rights in crowded {
            for right in &rights[..2 * WIDTH] {
                table.insert(1, *right, *right);
            }
            for right in &rights[..2 * WIDTH] {
                assert_eq!(table.get(PairKey::new(1, *right)), *right);
            }
            assert_eq!(table.get(PairKey::new(1, rights[2 * WIDTH])), u32::MAX);
            table.lines.fill(PairLine::default());
        }
    }
}
