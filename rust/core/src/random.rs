//! [`Random`]: numbers that depend on the seed alone, on every machine and in every version.

use crate::control::Control;
use crate::error::Result;
use crate::mixing::{STEP, mix};

/// Items between two checks of the cancel flag.
const TICK: usize = 4096;

/// `SplitMix64`, whose finalizer is [`mix`].
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
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
