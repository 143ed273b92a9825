//! [`FoundClasses`]: the classes whose names are found in the documents of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::config::Classes;
use crate::document::{Documents, LABELS, class_names};
use crate::error::{Error, Origin, Result};

/// The characters of a name.
type NameCharacters = Vec<u32>;

/// The classes whose names are found in the documents of a run. They have numbers in the order of their names, once all
/// documents were seen.
#[derive(Debug, Default)]
pub struct FoundClasses {
    seen: Mutex<SeenLabels>,
    numbers: OnceLock<BTreeMap<NameCharacters, u32>>,
}

/// The labels of the documents so far.
#[derive(Debug, Default)]
struct SeenLabels {
    names: BTreeSet<NameCharacters>,
    /// The first document with a name.
    named: Option<Origin>,
    /// The first document with a number, and the number.
    numbered: Option<(Origin, u32)>,
}

impl FoundClasses {
    /// Takes note of the labels of documents.
    ///
    /// Fails with [`Error::Option`] where some labels of a run are names and others are numbers.
    pub(crate) fn see(&self, documents: &Documents) -> Result<()> {
        let seen = &mut *self.seen();
        for document in documents.iter() {
            let numbers = document.column(LABELS);
            if class_names::are_names(numbers) {
                seen.named.get_or_insert_with(|| document.origin());
                for name in class_names::names(numbers) {
                    if !seen.names.contains(name) {
                        seen.names.insert(name.to_vec());
                    }
                }
            } else if let Some(&number) = numbers.first() {
                seen.numbered.get_or_insert_with(|| (document.origin(), number));
            }
            if let (Some(named), Some((numbered, number))) = (&seen.named, &seen.numbered) {
                let reason = format!(
                    "must list the names of the classes: {named} has a name, and {numbered} has the number {number}"
                );
                return Err(Error::option("objective.classes", reason));
            }
        }
        let most = Classes::MOST as usize;
        if seen.names.len() > most {
            let reason = format!(
                "must list the names of the classes: the labels are more than {most} names"
            );
            return Err(Error::option("objective.classes", reason));
        }
        Ok(())
    }

    /// The names in the order of their numbers.
    pub(crate) fn names(&self) -> Vec<String> {
        self.seen().names.iter().map(|name| class_names::text(name)).collect()
    }

    /// The number of classes. All documents must have been seen.
    pub(super) fn count(&self) -> usize {
        self.numbers().len()
    }

    /// The numbers of the classes that a column names. All documents must have been seen.
    pub(super) fn numbers_of<'n>(&'n self, column: &'n [u32]) -> impl Iterator<Item = u32> + 'n {
        let numbers = self.numbers();
        class_names::names(column).map(|name| numbers[name])
    }

    fn numbers(&self) -> &BTreeMap<NameCharacters, u32> {
        self.numbers.get_or_init(|| self.seen().names.iter().cloned().zip(0..).collect())
    }

    fn seen(&self) -> MutexGuard<'_, SeenLabels> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
