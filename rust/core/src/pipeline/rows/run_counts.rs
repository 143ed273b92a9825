//! [`RunCounts`]: the counts of a run and of its splits, before they become a report.

use std::collections::BTreeMap;
use std::iter;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{MaxLost, Options, Split, Validation};
use crate::error::Result;
use crate::pipeline::rows::leftover_documents::SharedDocument;
use crate::pipeline::rows::validation_draw::check_split;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::pipeline::statistics::packed_counts::PackedCounts;
use crate::report::timing::StageWork;
use crate::report::{Report, ShareReport};

/// The counts of a run, and of its splits if documents were set aside for validation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::pipeline) struct RunCounts {
    /// The counts of all documents, or of those that were read if there are splits.
    pub(in crate::pipeline) whole: PackedCounts,
    /// The counts of each split, in the order of [`Split::ALL`]; empty without splits.
    pub(in crate::pipeline) splits: Vec<PackedCounts>,
    /// The documents of each split that are to share rows with those of other groups.
    #[serde(default)]
    pub(in crate::pipeline) shared: Vec<Vec<SharedDocument>>,
    /// The shares of sources, if documents were drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::pipeline) shares: Vec<(String, ShareReport)>,
}

impl RunCounts {
    /// Adds the counts of a later group.
    pub(in crate::pipeline) fn merge(&mut self, later: Self) {
        self.whole.merge(later.whole);
        self.splits.resize_with(later.splits.len(), PackedCounts::default);
        for (packed_counts, later) in self.splits.iter_mut().zip(later.splits) {
            packed_counts.merge(later);
        }
        self.shared.resize_with(later.shared.len().max(self.shared.len()), Vec::new);
        for (shared, later) in self.shared.iter_mut().zip(later.shared) {
            shared.extend(later);
        }
    }

    /// The counts as JSON, without the times.
    pub(in crate::pipeline) fn to_json(&self) -> Value {
        let mut counts = self.clone();
        for packed_counts in iter::once(&mut counts.whole).chain(&mut counts.splits) {
            packed_counts.work = StageWork::default();
        }
        serde_json::to_value(counts).expect("strings and numbers become JSON")
    }

    /// The counts of all documents together.
    pub(in crate::pipeline) fn total(&self) -> PackedCounts {
        let mut total = self.whole.clone();
        for packed_counts in &self.splits {
            total.merge_read(packed_counts.clone());
        }
        total
    }

    /// Fails if more is lost than `most` allows.
    pub(in crate::pipeline) fn check_max_lost(&self, most: Option<MaxLost>) -> Result<()> {
        self.total().check_max_lost(most)
    }

    /// Refuses a split that leaves nothing on one side, or warns of it. Without `validation` there is none.
    pub(in crate::pipeline) fn check_split(
        &self,
        validation: Option<Validation>,
    ) -> Result<Option<String>> {
        let Some(validation) = validation else { return Ok(None) };
        let read: Vec<u64> = self.splits.iter().map(|it| it.ledger.read.documents).collect();
        check_split(validation, read.last().copied().unwrap_or(0), read.iter().sum())
    }

    /// Computes the lower bounds of the numbers of rows again, of all groups together.
    pub(in crate::pipeline) fn close(self, options: &Options) -> Self {
        let splits: Vec<PackedCounts> =
            self.splits.into_iter().map(|it| it.close(options)).collect();
        let whole = if splits.is_empty() { self.whole.close(options) } else { self.whole };
        Self { whole, splits, ..self }
    }

    /// The report of some groups of a job. It need not balance.
    pub(in crate::pipeline) fn report_so_far(self, options: &Options, about: InputFacts) -> Report {
        self.total().timeless(options, about)
    }

    /// The report, with one of each split.
    pub(in crate::pipeline) fn report(
        self,
        options: &Options,
        about: InputFacts,
        started: Instant,
    ) -> Result<Report> {
        let total = self.total();
        let mut splits = BTreeMap::new();
        for (split, packed_counts) in Split::ALL.into_iter().zip(self.splits) {
            let about = about.of_part(about.facts.files, about.facts.bytes);
            let report = packed_counts.report(options, about, started)?;
            splits.insert(split.name().to_owned(), Report { timing: None, ..report });
        }
        let shares = self.shares.into_iter().collect();
        let report = Report { shares, ..total.report(options, about, started)? };
        let Some(train) = splits.get(Split::Train.name()) else { return Ok(report) };
        // An epoch is an epoch of the training split.
        let steps_per_epoch = train.steps_per_epoch.clone();
        Ok(Report { steps_per_epoch, splits, ..report })
    }
}
