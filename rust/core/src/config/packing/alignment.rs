//! [`Alignment`]: each document in a row is filled up to a multiple of some tokens. Positions go on through the filling.

use std::num::NonZeroU32;

/// The multiple of tokens that a document takes in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment(NonZeroU32);

impl Default for Alignment {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

impl Alignment {
    /// The alignment that `strategy.align_to` asks for, if it is given.
    pub fn to(multiple: Option<NonZeroU32>) -> Self {
        Self(multiple.unwrap_or(NonZeroU32::MIN))
    }

    /// The tokens that a piece of `length` tokens takes in its row.
    pub fn room(self, length: u32) -> u32 {
        // A division for each piece would take a tenth of the time of planning.
        if self.0 == NonZeroU32::MIN { length } else { length.next_multiple_of(self.0.get()) }
    }
}
