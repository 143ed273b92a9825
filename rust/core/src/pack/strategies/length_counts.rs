//! [`LengthCounts`]: the number of unpacked pieces of each length.

use std::collections::BTreeMap;

use super::number_set::NumberSet;

/// The number of unpacked pieces of each length. The pieces themselves are chosen later.
pub(crate) trait LengthCounts {
    /// The number of pieces of this length.
    fn count(&self, length: u32) -> u32;

    /// Takes `pieces` pieces of this length, which must be there.
    fn take(&mut self, length: u32, pieces: u32);

    /// The longest length of a piece that is at most `length`.
    fn at_most(&self, length: u32) -> Option<u32>;

    /// The longer and the shorter of two pieces that have `tokens` together: the most equal pair of those
    /// found.
    ///
    /// Lengths near half of `tokens` are usually frequent, and the shortest are kept for rows that need them.
    fn pair(&self, tokens: u32) -> Option<(u32, u32)>;
}

/// Words of 64 lengths that a search for a pair examines. More cost time and found no better rows on any of
/// the recipes in `benches/` (November 2026).
const WORDS: u32 = 8;

/// Lengths that a search for a pair examines in a tree, where each costs a search of its own.
const LENGTHS: usize = 512;

/// A count for each possible length.
#[derive(Clone)]
pub(crate) struct CountTable {
    counts: Vec<u32>,
    there: NumberSet,
    /// The lengths in reverse, as `longest - length`, so that the bits of a pair line up.
    mirror: NumberSet,
    longest: u32,
}

impl CountTable {
    /// This number of pieces of each length, none above `longest`.
    pub(crate) fn new(histogram: &[(u32, u64)], longest: u32) -> Self {
        let mut counts = vec![0; longest as usize + 1];
        let (mut there, mut mirror) = (NumberSet::up_to(longest), NumberSet::up_to(longest));
        for &(length, count) in histogram {
            counts[length as usize] = few(count);
            there.insert(length);
            mirror.insert(longest - length);
        }
        Self { counts, there, mirror, longest }
    }
}

impl LengthCounts for CountTable {
    fn count(&self, length: u32) -> u32 {
        self.counts[length as usize]
    }

    fn take(&mut self, length: u32, pieces: u32) {
        let count = &mut self.counts[length as usize];
        *count -= pieces;
        if *count == 0 {
            self.there.remove(length);
            self.mirror.remove(self.longest - length);
        }
    }

    fn at_most(&self, length: u32) -> Option<u32> {
        self.there.at_most(length)
    }

    fn pair(&self, tokens: u32) -> Option<(u32, u32)> {
        let mut start = tokens.div_ceil(2);
        for _ in 0..WORDS {
            // Bit `i` stands for the pair of `start + i` and the rest.
            let rests = self.mirror.word(self.longest - tokens + start);
            let mut pairs = self.there.word(start) & rests;
            if tokens - start < 64 {
                pairs &= (1 << (tokens - start)) - 1;
            }
            while pairs != 0 {
                let longer = start + pairs.trailing_zeros();
                if self.count(longer) > u32::from(2 * longer == tokens) {
                    return Some((longer, tokens - longer));
                }
                pairs &= pairs - 1;
            }
            start += 64;
            if start >= tokens {
                return None;
            }
        }
        None
    }
}

/// A count for each length that occurs: for rows so long that a table would be larger than the data.
#[derive(Clone)]
pub(crate) struct CountTree(BTreeMap<u32, u32>);

impl CountTree {
    /// This number of pieces of each length.
    pub(crate) fn new(histogram: &[(u32, u64)]) -> Self {
        Self(histogram.iter().map(|&(length, count)| (length, few(count))).collect())
    }
}

impl LengthCounts for CountTree {
    fn count(&self, length: u32) -> u32 {
        self.0.get(&length).copied().unwrap_or(0)
    }

    fn take(&mut self, length: u32, pieces: u32) {
        if let Some(count) = self.0.get_mut(&length) {
            *count -= pieces;
            if *count == 0 {
                self.0.remove(&length);
            }
        }
    }

    fn at_most(&self, length: u32) -> Option<u32> {
        self.0.range(..=length).next_back().map(|(&length, _)| length)
    }

    fn pair(&self, tokens: u32) -> Option<(u32, u32)> {
        let longer = self.0.range(tokens.div_ceil(2)..tokens).take(LENGTHS);
        longer
            .map(|(&longer, &count)| (longer, tokens - longer, count))
            .find(
                |&(longer, shorter, count)| {
                    if longer == shorter { count > 1 } else { self.0.contains_key(&shorter) }
                },
            )
            .map(|(longer, shorter, _)| (longer, shorter))
    }
}

fn few(count: u64) -> u32 {
    u32::try_from(count).expect("pieces are counted by a u32")
}
