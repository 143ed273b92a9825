//! [`Validation`]: which part of the documents is set aside, and what the parts are called.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// What is trained on, or what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// What is trained on: everything, unless documents are set aside.
    Train,
    /// What is set aside.
    Validation,
}

impl Split {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Train, Self::Validation];

    /// The name in files and reports, which readers of data sets know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }
}

/// How many documents are set aside for validation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Validation {
    /// So many.
    Documents(NonZeroU64),
    /// This share of all, above 0 and below 1.
    Share(f64),
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Documents(documents) => documents.fmt(f),
            Self::Share(share) => share.fmt(f),
        }
    }
}

impl Validation {
    /// A share, if it is above 0 and below 1.
    pub fn share(share: f64) -> Option<Self> {
        (share > 0.0 && share < 1.0).then_some(Self::Share(share))
    }

    /// How many of `all` documents: a share is rounded to the nearest number, but is one at least.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count is a count; those beyond 2^53 differ by less than any share"
    )]
    pub fn of(self, all: u64) -> u64 {
        match self {
            Self::Documents(documents) => documents.get(),
            Self::Share(share) => ((all as f64 * share).round() as u64).max(1),
        }
    }
}
