//! [`Report`]: the counts of a run, of its records, rows and losses.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::histogram::Lengths;
use super::ledger::{
    Count, DroppedRecord, Note, NotedReport, PictureCount, SplitConversations, check_lost,
};
use super::length_warnings::length_warnings;
use super::run_facts::RunFacts;
use super::tally::ReportCounts;
use super::timing::{StageWork, Timing, ratio};
use crate::config::{MaxLost, Options};
use crate::error::{Origin, Result};
use crate::util::message::in_one_line;

/// The batch sizes for which the report counts steps, in rows.
const BATCH_SIZES: [u64; 3] = [8, 32, 128];

/// The report of a run.
///
/// Everything but [`Report::timing`] is the same for the same inputs and options, on any number of threads
/// and any day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of fastpack.
    pub fastpack: String,
    /// The training objective, unless it is the causal one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// The packing strategy.
    pub strategy: String,
    /// The most tokens of a row; `None` where each document has a row, however long.
    pub max_length: Option<u32>,
    /// The inputs that were read, and the engines that read them.
    #[serde(flatten)]
    pub facts: RunFacts,
    /// True if another call had finished the job, so that this one packed nothing.
    #[serde(skip)]
    pub finished_before: bool,
    /// Documents read, kept and dropped.
    pub documents: Balance,
    /// Tokens read, kept and dropped.
    pub tokens: Balance,
    /// The dropped documents and tokens, by reason.
    pub dropped: BTreeMap<String, Count>,
    /// Documents that were cut to fit a row, and the tokens they lost.
    pub truncated: Count,
    /// Documents that are in a second row too, and their tokens. They count as kept once.
    #[serde(default)]
    pub repeated: Count,
    /// The places of the first records that could not be read.
    pub places: Vec<PlaceReport>,
    /// The records with a field that the chat template leaves out, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, NotedReport>,
    /// The records with each other note, under the name of the note.
    #[serde(flatten, deserialize_with = "known_notes")]
    pub noted: BTreeMap<Note, NotedReport>,
    /// The conversations that became several documents.
    #[serde(default, skip_serializing_if = "SplitConversations::is_empty")]
    pub split_conversations: SplitConversations<NotedReport>,
    /// Rows made.
    pub rows: u64,
    /// Documents a row holds on average.
    pub documents_per_row: f64,
    /// Tokens over room, from 0 to 1.
    pub fill: f64,
    /// No packing of these documents has fewer rows than this (Martello and Toth's bound L2).
    pub lower_bound: u64,
    /// Tokens with a label.
    pub trained_tokens: u64,
    /// Tokens with a label over all tokens kept.
    pub trained_share: f64,
    /// Tokens that straddle the boundary of a trained span, in all documents that were read. They are
    /// trained.
    #[serde(default)]
    pub straddling_tokens: u64,
    /// The pictures in all documents that were read, and their tokens.
    #[serde(default, skip_serializing_if = "PictureCount::is_empty")]
    pub pictures: PictureCount,
    /// The share of the most pictures that rows may have, if they have such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture_fill: Option<f64>,
    /// The share of the most tokens of pictures that rows may have, if they have such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture_token_fill: Option<f64>,
    /// Lengths of the documents that were read, in tokens.
    pub lengths: Lengths,
    /// Steps of an epoch, by the number of rows in a step.
    pub steps_per_epoch: BTreeMap<u64, u64>,
    /// The report of each file, by its path, where each has an output of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub per_file: BTreeMap<String, Report>,
    /// The report of each split, by its name, where documents were set aside for validation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub splits: BTreeMap<String, Report>,
    /// The shares of the sources by their names, where documents were drawn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, ShareReport>,
    /// The files that were appended to those of an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appended: Option<AppendedFiles>,
    /// The timing; `None` in the timeless part of a report.
    pub timing: Option<Timing>,
}

impl Report {
    /// The report without [`Report::timing`].
    pub(crate) fn timeless(mut facts: RunFacts, tally: ReportCounts, options: &Options) -> Self {
        let ReportCounts { ledger, lengths, rows, .. } = tally;
        facts.warnings.extend(length_warnings(&ledger, &lengths));
        facts.warnings.extend(ledger.notes.warnings(&Origin::to_string, ledger.read.tokens));
        for text in [&mut facts.engine_reason, &mut facts.template_engine_reason]
            .into_iter()
            .flatten()
            .chain(&mut facts.warnings)
        {
            *text = in_one_line(std::mem::take(text));
        }
        let dropped = ledger.dropped_in_all();
        let packing = &options.rows.packing;
        let max_length = packing.max_length.map(NonZeroU32::get);
        // A row of any length is as long as its document.
        let room = max_length.map_or(tally.filled, |most| rows * u64::from(most));
        Self {
            fastpack: env!("CARGO_PKG_VERSION").to_owned(),
            objective: Some(&options.rows.objective)
                .filter(|objective| !objective.is_causal())
                .map(|objective| objective.name().name().to_owned()),
            strategy: options.rows.packing.strategy.name().to_owned(),
            max_length,
            facts,
            finished_before: false,
            documents: Balance {
                read: ledger.read.documents,
                kept: ledger.kept.documents,
                dropped: dropped.documents,
            },
            tokens: Balance {
                read: ledger.read.tokens,
                kept: ledger.kept.tokens,
                dropped: dropped.tokens + ledger.truncated.tokens,
            },
            dropped: ledger
                .dropped
                .iter()
                .map(|(reason, count)| (reason.name().to_owned(), *count))
                .collect(),
            truncated: ledger.truncated,
            repeated: ledger.repeated,
            places: ledger.places.into_iter().map(PlaceReport::from).collect(),
            left_out: ledger.notes.left_out_report(&Origin::to_string),
            noted: ledger.notes.noted_report(&Origin::to_string),
            split_conversations: ledger.notes.split_conversations.report(&Origin::to_string),
            rows,
            documents_per_row: ratio(ledger.kept.documents, rows),
            fill: ratio(tally.filled, room),
            lower_bound: tally.lower_bound,
            trained_tokens: tally.trained_tokens,
            trained_share: ratio(tally.trained_tokens, ledger.kept.tokens),
            straddling_tokens: ledger.straddling,
            pictures: ledger.pictures,
            picture_fill: packing
                .max_images_per_pack
                .map(|most| ratio(tally.packed_pictures.pictures, rows * u64::from(most.get()))),
            picture_token_fill: packing
                .max_image_tokens_per_pack
                .map(|most| ratio(tally.packed_pictures.tokens, rows * u64::from(most.get()))),
            lengths: lengths.lengths(),
            steps_per_epoch: BATCH_SIZES
                .into_iter()
                .map(|size| (size, rows.div_ceil(size)))
                .collect(),
            per_file: BTreeMap::new(),
            splits: BTreeMap::new(),
            shares: BTreeMap::new(),
            appended: None,
            timing: None,
        }
    }

    /// The report with the seconds that the run took.
    #[must_use]
    pub(crate) fn timed(mut self, seconds: f64, threads: usize, work: &StageWork) -> Self {
        let (bytes, tokens) = (self.facts.bytes, self.tokens.read);
        self.timing = Some(Timing::new(seconds, threads, bytes, tokens, work));
        self
    }

    /// The report with further warnings.
    #[must_use]
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.facts.warnings.extend(warnings.into_iter().map(in_one_line));
        self
    }

    /// Fails with [`Error::Lost`](crate::Error::Lost) if more was lost than `most` allows.
    pub(crate) fn check_max_lost(&self, most: Option<MaxLost>) -> Result<()> {
        let read = Count { documents: self.documents.read, tokens: self.tokens.read };
        let dropped = self.dropped.iter().map(|(reason, count)| (reason.as_str(), *count));
        check_lost(read, dropped, self.truncated, most, |_| String::new())
    }

    /// The report as JSON.
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings are always JSON")
    }
}

/// The notes among the fields of a report that have no other name.
fn known_notes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<Note, NotedReport>, D::Error> {
    let fields = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
    let known = fields.into_iter().filter_map(|(name, noted)| {
        let note = serde_json::from_value(name.into()).ok()?;
        Some(serde_json::from_value(noted).map(|noted| (note, noted)))
    });
    known.collect::<std::result::Result<_, _>>().map_err(D::Error::custom)
}

/// Documents or tokens read, kept and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Read.
    pub read: u64,
    /// Kept.
    pub kept: u64,
    /// Dropped.
    pub dropped: u64,
}

/// A place at which a record could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceReport {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
    /// The reason under which it is counted.
    pub reason: String,
    /// The message of the fault.
    pub message: String,
}

impl From<DroppedRecord> for PlaceReport {
    fn from(place: DroppedRecord) -> Self {
        Self {
            path: place.origin.path.display().to_string(),
            line: place.origin.line,
            reason: place.reason.name().to_owned(),
            message: place.message,
        }
    }
}

/// The share of a source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareReport {
    /// The share that was asked for: of all that is drawn, or of the source where it has a fraction alone.
    #[serde(rename = "asked")]
    pub requested: f64,
    /// The share that was drawn.
    pub got: f64,
    /// The documents and tokens that were drawn; those that were drawn twice count twice.
    pub drawn: Count,
}

/// The files that were appended to those of an earlier run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendedFiles {
    /// Their number.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}
