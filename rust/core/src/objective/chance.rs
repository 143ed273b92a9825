//! [`Chance`]: random numbers of one piece of a document, as a function of its key.

use crate::document::{Document, INPUTS};
use crate::mixing::{STEP, mix};

/// The key of the random numbers of a document: a hash of the seed, the pass and the ids of `document`.
///
/// Neither the place of the document among others, nor the road by which it came, nor the thread changes it. `epoch`
/// counts the copies that one run makes.
pub fn key(seed: u64, epoch: u64, document: Document<'_>) -> u64 {
    let pass = document.pass();
    let parts = [seed, epoch + pass.epoch, pass.repetition, hash(document.column(INPUTS))];
    parts.into_iter().fold(0, |key, part| mix((key ^ part).wrapping_add(STEP)))
}

/// A hash of ids, eight at a time.
fn hash(ids: &[u32]) -> u64 {
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

/// The random numbers of one piece. Each is a function of the key of its document, the first token of the piece and
/// its own number, so none depends on another.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The numbers of the piece that begins with the token `start` of the document with this key.
    pub fn of(key: u64, start: u32) -> Self {
        Self { state: mix(key ^ u64::from(start).wrapping_mul(STEP)) }
    }

    /// The number at an index.
    pub fn at(self, index: u64) -> u64 {
        mix(self.state.wrapping_add(STEP.wrapping_mul(index.wrapping_add(1))))
    }

    /// The number at an index as one below `bound`, uniform up to one part in 2³².
    ///
    /// # Panics
    ///
    /// Never: the number is below `bound`.
    pub fn below(self, index: u64, bound: usize) -> usize {
        let product = (self.at(index) >> 32) * bound as u64;
        usize::try_from(product >> 32).expect("a number below one that is in memory")
    }

    /// A whole number around `mean`, with a standard deviation of 1: the sum of twelve uniform numbers, cut down.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "means are small, and a sum of twelve 32-bit numbers is exact"
    )]
    pub fn around(self, mean: f64, index: u64) -> u32 {
        let sum: u64 = (0..12).map(|part| self.at(12 * index + part) >> 32).sum();
        let normal = sum as f64 / 2_f64.powi(32) - 6.0;
        (mean - normal).max(0.0) as u32
    }
}
