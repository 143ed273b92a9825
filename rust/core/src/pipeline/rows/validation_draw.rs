//! [`ValidationDraw`]: selects the documents that are set aside for validation.

use std::num::NonZeroU64;

use crate::config::Validation;
use crate::error::{Error, Result};
use crate::pipeline::documents::validation_split::SplitThreshold;
use crate::pipeline::rows::document_cutter::CutResult;

/// The documents to select from: the content and the cut result of each.
pub(in crate::pipeline) struct ValidationDraw {
    validation: Validation,
    seed: u64,
    contents: Vec<u64>,
    pub(super) cut_results: Vec<CutResult>,
    /// The threshold, if it is known before all documents are.
    threshold: Option<SplitThreshold>,
}

impl ValidationDraw {
    pub(super) fn new(validation: Validation, seed: u64) -> Self {
        let threshold = SplitThreshold::of_share(validation, seed);
        Self { validation, seed, contents: Vec::new(), cut_results: Vec::new(), threshold }
    }

    /// Sets documents aside by a threshold of the documents of all groups; these are of one.
    pub(super) fn with_threshold(self, threshold: SplitThreshold) -> Self {
        Self { threshold: Some(threshold), ..self }
    }

    /// Adds the next document, with the hash of its record's content.
    pub(super) fn add(&mut self, content: u64, cut_result: CutResult) {
        self.contents.push(content);
        self.cut_results.push(cut_result);
    }

    /// For each document, by its number, true if it is set aside.
    pub(super) fn set_aside(&self) -> Vec<bool> {
        let threshold = self.threshold.unwrap_or_else(|| {
            let all = self.contents.len() as u64;
            let wanted = self.validation.documents().map_or(all, NonZeroU64::get);
            let hashes = self.contents.iter().map(|&it| SplitThreshold::hash(self.seed, it));
            SplitThreshold::counted(wanted, self.seed, hashes.collect()).0
        });
        self.contents.iter().map(|&content| threshold.holds_out(content)).collect()
    }
}

/// Refuses a split that leaves nothing to train on, and a number of documents that sets none aside. Returns a warning of
/// one that sets aside fewer than were asked for.
pub(crate) fn check_split(validation: Validation, aside: u64, all: u64) -> Result<Option<String>> {
    let refuse = |reason: String| Err(Error::option("validation", reason));
    if all == 0 {
        return refuse("cannot be given: there are no documents to set aside".to_owned());
    }
    let wanted = match validation {
        Validation::Documents(wanted) => wanted.get(),
        Validation::Share(_) => aside,
    };
    if aside.max(wanted) >= all {
        return refuse(format!(
            "sets aside {wanted} of {all} documents, which leaves none to train on; ask for fewer"
        ));
    }
    Ok(match validation {
        Validation::Documents(_) if aside == 0 => {
            return refuse(format!(
                "sets aside {wanted} documents, but each record is read more often, and equal ones stay together"
            ));
        }
        Validation::Documents(_) if aside < wanted => Some(format!(
            "{aside} documents are set aside for validation, not {wanted}: equal records stay together"
        )),
        Validation::Share(share) if aside == 0 => {
            Some(format!("the share {share} of `validation` sets none of {all} documents aside"))
        }
        _ => None,
    })
}
