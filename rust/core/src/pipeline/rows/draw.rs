//! [`Draw`]: selects the documents that are set aside for validation.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::assemble::Sources;
use crate::config::Validation;
use crate::error::{Error, Origin, Result};
use crate::pipeline::accounts::books::Fate;

/// The documents to select from: the lot and the fate of each.
///
/// A lot is a hash of the seed and the place of the record. So the smallest lots are the same documents for
/// any rows, and a record that is read several times is in one split only.
pub(in crate::pipeline) struct Draw {
    validation: Validation,
    seed: u64,
    files: HashMap<Arc<Path>, u64>,
    lots: Vec<u64>,
    pub(super) fates: Vec<Fate>,
}

impl Draw {
    pub(super) fn new(validation: Validation, seed: u64, sources: &Sources) -> Self {
        Self { validation, seed, files: sources.ranks(), lots: Vec::new(), fates: Vec::new() }
    }

    /// Adds the next document with its lot.
    pub(super) fn add(&mut self, origin: &Origin, fate: Fate) {
        let file = self.files.get(&origin.path).copied().unwrap_or(0);
        let mut hasher = blake3::Hasher::new();
        for number in [self.seed, file, origin.line] {
            hasher.update(&number.to_le_bytes());
        }
        let hash = hasher.finalize();
        let lot = hash.as_bytes().first_chunk().expect("a hash of 32 bytes");
        self.lots.push(u64::from_le_bytes(*lot));
        self.fates.push(fate);
    }

    /// Whether each document is set aside, by its number.
    pub(super) fn set_aside(&self) -> Result<Vec<bool>> {
        let all = self.lots.len() as u64;
        if all == 0 {
            let reason = "cannot be given: there are no documents to set aside";
            return Err(Error::option("validation", reason));
        }
        let wanted = self.validation.of(all);
        if wanted >= all {
            let reason = format!(
                "sets aside {wanted} of {all} documents, which leaves none to train on; ask for fewer"
            );
            return Err(Error::option("validation", reason));
        }
        let mut order: Vec<u32> =
            (0..).zip(&self.lots).map(|(number, _): (u32, _)| number).collect();
        order.sort_unstable_by_key(|&number| (self.lots[number as usize], number));
        let mut aside = vec![false; self.lots.len()];
        let mut taken = 0;
        for same in order.chunk_by(|&a, &b| self.lots[a as usize] == self.lots[b as usize]) {
            if taken + same.len() as u64 <= wanted {
                taken += same.len() as u64;
                for &number in same {
                    aside[number as usize] = true;
                }
            }
            if taken == wanted {
                break;
            }
        }
        if taken == 0 {
            let reason =
                format!("sets aside {wanted} documents, but each record is read more often");
            return Err(Error::option("validation", reason));
        }
        Ok(aside)
    }
}
