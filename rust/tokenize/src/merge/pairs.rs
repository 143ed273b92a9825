//! The table of pairs: two symbols to what they become.

use crate::machine::{AHEAD, prefetch};

/// Symbols must be smaller, so that a pair and its value fit into one word.
pub(crate) const LARGEST_SYMBOLS: usize = 1 << 21;

/// Values must be smaller: ranks of as many merges.
pub(crate) const LARGEST_MERGES: usize = (1 << 22) - 1;

const SYMBOL_BITS: u32 = 21;
const VALUE_BITS: u32 = 22;
const EMPTY: u64 = u64::MAX;

/// Odd, with well-mixed bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Open addressing with linear probing, one word an entry, at most half full.
pub(super) struct PairTable {
    entries: Box<[u64]>,
    shift: u32,
}

impl PairTable {
    /// The table of pairs and what they become; of equal pairs, the last counts.
    pub(super) fn new(pairs: impl Iterator<Item = [u32; 3]> + Clone) -> Self {
        let size = (pairs.clone().count().max(1) * 2).next_power_of_two();
        let shift = 64 - size.trailing_zeros();
        let mut table = Self { entries: vec![EMPTY; size].into_boxed_slice(), shift };
        let mut ahead = pairs.clone().skip(AHEAD);
        for [left, right, value] in pairs {
            if let Some([left, right, _]) = ahead.next() {
                table.prefetch(left, right);
            }
            table.insert(left, right, value);
        }
        table
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the shift leaves no more bits than the size has"
        )]
        let place = (key.wrapping_mul(SPREAD) >> self.shift) as usize;
        place
    }

    fn insert(&mut self, left: u32, right: u32, value: u32) {
        let key = u64::from(left) << SYMBOL_BITS | u64::from(right);
        let mask = self.entries.len() - 1;
        let mut place = self.place(key);
        while self.entries[place] != EMPTY && self.entries[place] >> VALUE_BITS != key {
            place = (place + 1) & mask;
        }
        self.entries[place] = key << VALUE_BITS | u64::from(value);
    }

    /// Has what [`Self::get`] will look at brought near.
    #[inline]
    pub(super) fn prefetch(&self, left: u32, right: u32) {
        let place = self.place(u64::from(left) << SYMBOL_BITS | u64::from(right));
        prefetch(self.entries.as_ptr().wrapping_add(place));
    }

    /// The value of a pair, or `u32::MAX`.
    #[inline]
    pub(super) fn get(&self, left: u32, right: u32) -> u32 {
        let key = u64::from(left) << SYMBOL_BITS | u64::from(right);
        let mask = self.entries.len() - 1;
        let mut place = self.place(key);
        loop {
            let entry = self.entries[place & mask];
            if entry >> VALUE_BITS == key {
                return (entry & ((1 << VALUE_BITS) - 1)) as u32;
            }
            if entry == EMPTY {
                return u32::MAX;
            }
            place += 1;
        }
    }
}
