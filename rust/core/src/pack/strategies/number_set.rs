//! [`NumberSet`]: a set of small numbers that finds the next and the previous one fast.

/// Numbers below a bound, as a tree of bits: a bit of one level says that a word of the level below is not empty.
///
/// A search reads at most two words a level, and three levels reach 262,144.
#[derive(Clone, Debug)]
pub(crate) struct NumberSet {
    levels: Vec<Vec<u64>>,
}

impl NumberSet {
    /// The empty set of numbers up to `most`.
    pub(crate) fn up_to(most: u32) -> Self {
        let mut levels = vec![vec![0; most as usize / 64 + 1]];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            levels.push(vec![0; below.len().div_ceil(64)]);
        }
        Self { levels }
    }

    pub(crate) fn insert(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The 64 numbers from `number` on, as bits; the lowest bit is the first.
    pub(crate) fn word(&self, number: u32) -> u64 {
        let words = &self.levels[0];
        let (at, shift) = (number as usize / 64, number % 64);
        let low = words[at] >> shift;
        let high = words.get(at + 1).filter(|_| shift > 0).map_or(0, |word| word << (64 - shift));
        low | high
    }

    /// The least number of the set that is at least `number`.
    pub(crate) fn at_least(&self, number: u32) -> Option<u32> {
        let mut at = number as usize;
        let mut height = 0;
        loop {
            let word = self.levels.get(height)?.get(at / 64)? & (!0 << (at % 64));
            if word != 0 {
                at = at / 64 * 64 + word.trailing_zeros() as usize;
                break;
            }
            at = at / 64 + 1;
            height += 1;
        }
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + level[at].trailing_zeros() as usize;
        }
        Some(member(at))
    }

    /// The greatest number of the set that is at most `number`, which must be within the bound of the set.
    pub(crate) fn at_most(&self, number: u32) -> Option<u32> {
        let mut at = number as usize;
        let mut height = 0;
        loop {
            let word = self.levels.get(height)?[at / 64] & (!0 >> (63 - at % 64));
            if word != 0 {
                at = at / 64 * 64 + word.ilog2() as usize;
                break;
            }
            at = (at / 64).checked_sub(1)?;
            height += 1;
        }
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + level[at].ilog2() as usize;
        }
        Some(member(at))
    }
}

fn member(at: usize) -> u32 {
    u32::try_from(at).expect("only numbers of 32 bits were inserted")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::NumberSet;

    proptest! {
        #[test]
        fn a_set_finds_what_an_ordered_set_finds(
            most in prop_oneof![0..200_u32, 4090..4100_u32, 262_140..262_150_u32],
            picks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..80),
        ) {
            let mut bits = NumberSet::up_to(most);
            let mut oracle = BTreeSet::new();
            for (pick, inserted) in picks {
                let number = u32::try_from(pick.index(most as usize + 1)).expect("at most `most`");
                if inserted {
                    bits.insert(number);
                    oracle.insert(number);
                } else {
                    bits.remove(number);
                    oracle.remove(&number);
                }
                for bit in 0..64 {
                    prop_assert_eq!(bits.word(number) >> bit & 1 == 1, oracle.contains(&(number + bit)));
                }
                for probe in [number, number.saturating_sub(1), (number + 1).min(most), 0, most] {
                    prop_assert_eq!(bits.at_least(probe), oracle.range(probe..).next().copied());
                    prop_assert_eq!(bits.at_most(probe), oracle.range(..=probe).next_back().copied());
                }
            }
        }
    }
}
