//! Random numbers that depend on a seed or a key alone, on every machine and in every version: [`Random`] gives them one after
//! the other, [`KeyedRandom`] by their index. Keys are made by [`number_of`], [`key_of`] and [`hash_of_ids`].

use crate::error::Result;
use crate::util::control::Control;

/// Items between two checks of the cancel flag.
const TICK: usize = 4096;

/// The distance between the numbers that are mixed one after the other: an odd number near 2⁶⁴ divided by the golden
/// ratio.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles a number, so that close numbers become unlike: the finalizer of `SplitMix64` (Steele, Lea and Flood, *Fast
/// splittable pseudorandom number generators*, 2014).
///
/// It is implemented here because the numbers decide the output: a crate may change its own in any version.
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number below `bound` from a random one, uniform up to one part in 2³².
fn below(number: u64, bound: u64) -> u64 {
    ((number >> 32) * bound) >> 32
}

/// `SplitMix64`, whose finalizer is [`mix`].
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, uniform up to one part in 2³².
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(STEP);
        let number = below(mix(self.0), u64::from(bound));
        u32::try_from(number).expect("half of a product of 32-bit numbers")
    }

    /// Shuffles `items`; all orders are equally likely (Fisher and Yates).
    pub(crate) fn shuffle(&mut self, items: &mut [u32], control: &Control) -> Result<()> {
        for begin in (1..items.len()).step_by(TICK) {
            control.tick()?;
            for end in begin..items.len().min(begin + TICK) {
                let last = u32::try_from(end).expect("items are counted by a u32");
                items.swap(end, self.below(last + 1) as usize);
            }
        }
        Ok(())
    }
}

/// The numbers of a [`Random`] by their indices, so that none depends on whether another was drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedRandom(u64);

impl KeyedRandom {
    /// The numbers of the piece that begins with the token `start` of the document with this key.
    pub(crate) fn of(key: u64, start: u32) -> Self {
        Self(mix(key ^ u64::from(start).wrapping_mul(STEP)))
    }

    /// The number at an index.
    pub(crate) fn at(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(STEP.wrapping_mul(index.wrapping_add(1))))
    }

    /// The number at an index as one below `bound`, uniform up to one part in 2³².
    pub(crate) fn below(self, index: u64, bound: usize) -> usize {
        let number = below(self.at(index), bound as u64);
        usize::try_from(number).expect("a number below one that is in memory")
    }

    /// A whole number around `mean`, with a standard deviation of 1: the sum of twelve uniform numbers, cut down.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "means are small, and a sum of twelve 32-bit numbers is exact"
    )]
    pub(crate) fn around(self, mean: f64, index: u64) -> u32 {
        let sum: u64 = (0..12).map(|part| self.at(12 * index + part) >> 32).sum();
        let normal = sum as f64 / 2_f64.powi(32) - 6.0;
        (mean - normal).max(0.0) as u32
    }
}

/// A random number from the given ones: 64 bits of their BLAKE3 hash, as good a seed as any.
pub(crate) fn number_of(numbers: &[u64]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    u64::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("a hash of 32 bytes"))
}

/// A key from the given numbers, by a few multiplications where [`number_of`] hashes: each document has one.
pub(crate) fn key_of(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |key, number| mix((key ^ number).wrapping_add(STEP)))
}

/// A hash of ids, eight at a time.
pub(crate) fn hash_of_ids(ids: &[u32]) -> u64 {
    const FACTOR: u64 = 0xff51_afd7_ed55_8ccd;
    let mut lanes = [STEP, STEP << 1 | 1, STEP << 2 | 1, STEP << 3 | 1];
    let mut chunks = ids.chunks_exact(2 * lanes.len());
    let stir = |lane: &mut u64, pair: &[u32]| {
        let word = pair.iter().fold(0, |word, &id| word << 32 | u64::from(id));
        *lane = (*lane ^ word).wrapping_mul(FACTOR);
        *lane ^= *lane >> 32;
    };
    for chunk in &mut chunks {
        for (lane, pair) in lanes.iter_mut().zip(chunk.chunks_exact(2)) {
            stir(lane, pair);
        }
    }
    for (lane, pair) in lanes.iter_mut().zip(chunks.remainder().chunks(2)) {
        stir(lane, pair);
    }
    lanes.into_iter().fold(ids.len() as u64, |hash, lane| mix((hash ^ lane).wrapping_add(STEP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator_in_turn_and_by_their_index() {
        // The outputs that the reference implementation of `SplitMix64` (Vigna, 2015) gives for this seed.
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        let (mut in_turn, by_index) = (Random::new(1_234_567), KeyedRandom(1_234_567));
        for (index, number) in (0..).zip(published) {
            assert_eq!(by_index.at(index), number);
            assert_eq!(u64::from(in_turn.below(u32::MAX)), below(number, u64::from(u32::MAX)));
        }
    }
}
