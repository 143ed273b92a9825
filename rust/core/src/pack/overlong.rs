//! What becomes of a document, given its length.

use std::num::NonZeroU32;

use crate::config::Overlong;

/// What becomes of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it is packed.
    Whole,
    /// Its first `max_length` tokens are packed; the others are lost and counted.
    Start,
    /// It is left out and counted.
    Drop,
    /// The run fails, naming it.
    Refuse,
}

/// What becomes of a document of `length` tokens.
pub fn cut(length: u64, max_length: NonZeroU32, overlong: Overlong) -> Cut {
    if length <= u64::from(max_length.get()) {
        return Cut::Whole;
    }
    match overlong {
        Overlong::Drop => Cut::Drop,
        Overlong::Truncate => Cut::Start,
        Overlong::Error => Cut::Refuse,
    }
}
