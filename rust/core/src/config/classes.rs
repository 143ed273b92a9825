//! [`Classes`]: the classes that the labels of records name.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::DocumentKind;
use crate::error::{Error, Result};
use crate::util::wording::{message, set};

/// The classes that the labels of records name, or are numbers of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Classes {
    /// Unknown: a label is the number of its class.
    #[default]
    Unknown,
    /// So many classes, without names.
    Count(NonZeroU32),
    /// The names of the classes, each in the place of its number.
    Names(Vec<String>),
}

impl Classes {
    /// The most classes: each has a value in every row of `multi_label`.
    pub const MOST: u32 = 1 << 20;

    /// True if neither names nor number are known, which manifests leave out.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }

    /// The number of classes, if it is known.
    pub fn count(&self) -> Option<usize> {
        match self {
            Self::Unknown => None,
            Self::Count(count) => Some(count.get() as usize),
            Self::Names(names) => Some(names.len()),
        }
    }

    /// Checks that records for documents of this kind can be read, where names of classes are `found` in them or not.
    pub(crate) fn suffice_for(&self, documents: DocumentKind, found: bool) -> Result<()> {
        if documents == DocumentKind::MultiLabelled && self.is_unknown() && !found {
            let reason = message![
                "must be given with ",
                set("objective", "multi_label"),
                ": the names of the classes, or their number",
            ];
            return Err(Error::option("objective.classes", reason));
        }
        Ok(())
    }

    /// Checks that names are distinct.
    pub fn validate(&self) -> Result<()> {
        let Self::Names(names) = self else { return Ok(()) };
        if names.is_empty() {
            return Err(Error::option("objective.classes", "must name at least one class"));
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let reason = format!("names `{}` twice; each class has one number", pair[0]);
                Err(Error::option("objective.classes", reason))
            }
            None => Ok(()),
        }
    }
}
