//! [`Draw`]: selects the documents that are set aside for validation.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::assemble::NumberedFiles;
use crate::config::Validation;
use crate::error::{Error, Origin, Result};
use crate::pipeline::accounts::fate::DocumentFate;

/// The documents to select from: the lot and the fate of each.
///
/// A lot is a hash of the seed and the place of the record. So the smallest lots are the same documents for
/// any rows, and a record that is read several times is in one split only.
pub(in crate::pipeline) struct Draw {
    validation: Validation,
    seed: u64,
    files: HashMap<Arc<Path>, u64>,
    lots: Vec<u64>,
    pub(super) fates: Vec<DocumentFate>,
    choice: Option<ValidationLots>,
}

impl Draw {
    pub(in crate::pipeline) fn new(
        validation: Validation,
        seed: u64,
        sources: &NumberedFiles,
    ) -> Self {
        Self {
            validation,
            seed,
            files: sources.ranks(),
            lots: Vec::new(),
            fates: Vec::new(),
            choice: None,
        }
    }

    /// Adds the next document with its lot.
    pub(super) fn add(&mut self, origin: &Origin, fate: DocumentFate) {
        self.lots.push(self.lot(origin));
        self.fates.push(fate);
    }

    /// The lot of the document of a record.
    pub(in crate::pipeline) fn lot(&self, origin: &Origin) -> u64 {
        let file = self.files.get(&origin.path).copied().unwrap_or(0);
        let mut hasher = blake3::Hasher::new();
        for number in [self.seed, file, origin.line] {
            hasher.update(&number.to_le_bytes());
        }
        let hash = hasher.finalize();
        let lot = hash.as_bytes().first_chunk().expect("a hash of 32 bytes");
        u64::from_le_bytes(*lot)
    }

    /// Sets documents aside by a choice among the documents of all groups, of which these are some.
    pub(super) fn chosen(self, choice: ValidationLots) -> Self {
        Self { choice: Some(choice), ..self }
    }

    /// Whether each document is set aside, by its number.
    pub(super) fn set_aside(&self) -> Result<Vec<bool>> {
        let choice = if let Some(choice) = &self.choice {
            choice.clone()
        } else {
            let all = self.lots.len() as u64;
            let mut lots = self.lots.clone();
            lots.sort_unstable();
            ValidationLots::among(&lots, all, self.validation)?.0
        };
        Ok(self.lots.iter().map(|&lot| choice.takes(lot)).collect())
    }
}

/// The lots of the documents that are set aside: the smallest ones. Documents of the same lot stay together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::pipeline) struct ValidationLots {
    /// The largest lot that is set aside.
    last: u64,
    /// Smaller lots that too many documents have.
    passed_over: BTreeSet<u64>,
}

impl ValidationLots {
    /// The choice among `all` documents; `lots` has the smallest lots in order. Also returns whether as many are set
    /// aside as were asked for: if not, further lots may change the choice.
    pub(in crate::pipeline) fn among(
        lots: &[u64],
        all: u64,
        validation: Validation,
    ) -> Result<(Self, bool)> {
        if all == 0 {
            let reason = "cannot be given: there are no documents to set aside";
            return Err(Error::option("validation", reason));
        }
        let wanted = validation.of(all);
        if wanted >= all {
            let reason = format!(
                "sets aside {wanted} of {all} documents, which leaves none to train on; ask for fewer"
            );
            return Err(Error::option("validation", reason));
        }
        let mut choice = Self::default();
        let (mut taken, mut passed_over) = (0, Vec::new());
        for same in lots.chunk_by(|a, b| a == b) {
            if taken + same.len() as u64 > wanted {
                passed_over.push(same[0]);
                continue;
            }
            taken += same.len() as u64;
            choice.last = same[0];
            choice.passed_over.extend(passed_over.drain(..));
            if taken == wanted {
                return Ok((choice, true));
            }
        }
        if taken == 0 && lots.len() as u64 == all {
            let reason =
                format!("sets aside {wanted} documents, but each record is read more often");
            return Err(Error::option("validation", reason));
        }
        Ok((choice, false))
    }

    /// Whether documents of this lot are set aside.
    fn takes(&self, lot: u64) -> bool {
        lot <= self.last && !self.passed_over.contains(&lot)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn documents(count: u64) -> Validation {
        Validation::Documents(NonZeroU64::new(count).expect("above zero"))
    }

    #[test]
    fn the_smallest_lots_are_set_aside() {
        let lots = [1, 3, 5, 7, 9];
        let (choice, is_whole) = ValidationLots::among(&lots, 5, documents(2)).expect("a choice");
        assert!(is_whole);
        let taken: Vec<u64> = lots.into_iter().filter(|&lot| choice.takes(lot)).collect();
        assert_eq!(taken, [1, 3]);
    }

    #[test]
    fn a_lot_of_too_many_documents_is_passed_over() {
        let lots = [1, 2, 2, 2, 4, 6];
        let (choice, is_whole) = ValidationLots::among(&lots, 6, documents(3)).expect("a choice");
        assert!(is_whole);
        let taken: Vec<u64> = lots.into_iter().filter(|&lot| choice.takes(lot)).collect();
        assert_eq!(taken, [1, 4, 6]);
    }

    #[test]
    fn the_first_lots_alone_may_not_be_enough() {
        let (_, is_whole) = ValidationLots::among(&[1, 2], 100, documents(3)).expect("a choice");
        assert!(!is_whole);
    }
}
