//! [`WorkOptions`]: the options that decide how the work is done.

use std::fmt;
use std::num::NonZeroUsize;

use chrono::NaiveDateTime;

/// The most threads that a run may ask for: more than any machine has cores, fewer than any system refuses.
pub const MOST_THREADS: usize = 1024;

/// The share of the documents, and of their tokens, that a run may lose, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxLost(f64);

impl MaxLost {
    /// This share; `None` if it is not between 0 and 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// True if `lost` is a larger share of `read`.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts beyond 2^53 differ by less than any share"
    )]
    pub fn is_exceeded(self, lost: u64, read: u64) -> bool {
        lost as f64 / read.max(1) as f64 > self.0
    }
}

impl fmt::Display for MaxLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to more digits than anybody gives: 100 times 0.07 is not 7.
        write!(f, "{}%", (self.0 * 1e14).round() / 1e12)
    }
}

/// The options that decide how the work is done. They never change the output.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkOptions {
    /// The share that may be lost before the run fails. Without it, a run fails only if it keeps nothing.
    pub max_lost: Option<MaxLost>,
    /// The number of documents, evenly spread over the input, that the reference engine encodes too.
    pub verify: u32,
    /// Worker threads.
    pub threads: NonZeroUsize,
    /// The time at which the run started.
    pub started: NaiveDateTime,
}
