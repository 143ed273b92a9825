//! [`Validation`]: the documents that are set aside, and the names of the splits.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::util::wording::SettingValue;

/// A split of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The documents for training: all documents, unless some are set aside.
    Train,
    /// The documents set aside for validation.
    Validation,
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 2] = [Self::Train, Self::Validation];

    /// True if this is the name of a shard of the split.
    pub(crate) fn has_shard(self, name: &str) -> bool {
        name.strip_prefix(self.name()).is_some_and(|rest| rest.starts_with('-'))
    }

    /// The name in files and reports, as readers of data sets expect it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }
}

/// The number of documents that are set aside for validation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Validation {
    /// This number of documents.
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

impl From<Validation> for SettingValue {
    fn from(validation: Validation) -> Self {
        match validation {
            Validation::Documents(documents) => documents.get().into(),
            Validation::Share(share) => share.into(),
        }
    }
}

impl Validation {
    /// A share; `None` unless it is above 0 and below 1.
    pub fn share(share: f64) -> Option<Self> {
        (share > 0.0 && share < 1.0).then_some(Self::Share(share))
    }

    /// The number of documents; `None` for a share.
    pub(crate) fn documents(self) -> Option<NonZeroU64> {
        match self {
            Self::Documents(documents) => Some(documents),
            Self::Share(_) => None,
        }
    }
}
