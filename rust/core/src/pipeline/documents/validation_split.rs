//! [`SplitThreshold`]: separates the records for validation from those for training, by their content.

use serde::{Deserialize, Serialize};

use crate::config::Validation;
use crate::util::random::{STEP, mix};

/// The greatest split hash that is held out for validation; `None` if none is.
///
/// The split hash of a record is one of its content and of the seed. So equal records are in one split, wherever they
/// are and however often they are read, and every call holds the same ones out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitThreshold {
    seed: u64,
    last: Option<u64>,
}

impl SplitThreshold {
    /// The threshold of a share of all hashes; `None` for a number of documents, which has to be
    /// [counted](Self::counted).
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of all hashes: 53 bits are plenty"
    )]
    pub(crate) fn of_share(validation: Validation, seed: u64) -> Option<Self> {
        let Validation::Share(share) = validation else { return None };
        Some(Self { seed, last: ((share * u64::MAX as f64) as u64).checked_sub(1) })
    }

    /// The threshold of at most `wanted` documents, and the number that it holds out of those with these split hashes, the
    /// smallest of all. Documents of equal hashes are on one side.
    pub(crate) fn counted(wanted: u64, seed: u64, mut hashes: Vec<u64>) -> (Self, u64) {
        hashes.sort_unstable();
        let (mut last, mut taken) = (None, 0);
        for equal in hashes.chunk_by(|a, b| a == b) {
            if taken + equal.len() as u64 > wanted {
                break;
            }
            taken += equal.len() as u64;
            last = Some(equal[0]);
        }
        (Self { seed, last }, taken)
    }

    /// The split hash of a record of this content.
    pub(crate) fn hash(seed: u64, content: u64) -> u64 {
        mix(mix(seed.wrapping_add(STEP)) ^ content)
    }

    /// True if a record of this content is held out.
    pub(crate) fn holds_out(self, content: u64) -> bool {
        self.last.is_some_and(|last| Self::hash(self.seed, content) <= last)
    }
}

/// One of the splits, whose records alone are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitSide {
    pub(crate) threshold: SplitThreshold,
    /// True if it is the split for validation.
    pub(crate) held_out: bool,
}

impl SplitSide {
    /// True if a record of this content is taken; `None` is one that cannot be read.
    pub(crate) fn takes(self, content: Option<u64>) -> bool {
        content.is_some_and(|content| self.threshold.holds_out(content)) == self.held_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_takes_the_smallest_hashes_up_to_it_equal_ones_together() {
        let hashes = vec![9, 1, 3, 3, 3, 7];
        let last = |wanted| {
            let (threshold, taken) = SplitThreshold::counted(wanted, 0, hashes.clone());
            (threshold.last, taken)
        };
        let found: Vec<_> = (0..8).map(last).collect();
        let (one, six) = ((Some(1), 1), (Some(9), 6));
        assert_eq!(found, [(None, 0), one, one, one, (Some(3), 4), (Some(7), 5), six, six]);
    }

    #[test]
    fn a_share_takes_as_many_hashes() {
        let threshold = SplitThreshold::of_share(Validation::Share(0.25), 3).expect("a share");
        let taken = (0..40_000).filter(|&content| threshold.holds_out(content)).count();
        assert!((9_700..10_300).contains(&taken), "{taken}");
    }
}
