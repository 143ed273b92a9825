//! [`Random`]: numbers that depend on the seed alone, on every machine and in every version.

use super::ticks::TICK;
use crate::control::Control;
use crate::error::Result;

/// `SplitMix64` (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
///
/// It is implemented here because the numbers decide the output: a crate may change its own in any version.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, uniform up to one part in 2³².
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let product = (self.next() >> 32) * u64::from(bound);
        u32::try_from(product >> 32).expect("half of a product of 32-bit numbers")
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
