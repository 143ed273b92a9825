//! [`RecordSelection`]: the records that a stream takes, by their numbers, their fields, their lengths and the split.

use std::num::NonZeroU64;
use std::ops::{Range, RangeInclusive};

use serde::Serialize;

use super::select_values::WantedValues;
use crate::config::Validation;
use crate::document::{Documents, INPUTS};
use crate::record::{Fault, object_of};
use crate::report::ledger::Reason;
use crate::source::{Block, RawContent, RawRecord};

/// The records that a stream takes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordSelection {
    /// The wanted values of fields.
    #[serde(rename = "select.where")]
    pub fields: Vec<(String, WantedValues)>,
    /// The least tokens of a document.
    #[serde(rename = "select.min_tokens")]
    pub min_tokens: Option<u32>,
    /// The most tokens of a document.
    #[serde(rename = "select.max_tokens")]
    pub max_tokens: Option<u32>,
    /// The size of the split that is held out for validation.
    pub validation: Option<Validation>,
    /// True if the records are those that are held out.
    pub held_out: bool,
    /// The numbers of the records, in the order of the input.
    pub numbers: RecordNumbers,
}

/// The numbers of the records that are taken, in the order of the input. They decide first: the other conditions are
/// about the records that they leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordNumbers {
    /// The number of records at the beginning of the input that are left out.
    #[serde(rename = "select.skip")]
    pub skip: u64,
    /// The number of records that are taken after them; all by default.
    #[serde(rename = "select.take")]
    pub take: Option<NonZeroU64>,
    /// The distance of the records that are taken of each file among these, from the first on; 1 by default.
    #[serde(rename = "select.stride")]
    pub stride: Option<NonZeroU64>,
}

impl RecordNumbers {
    /// The numbers from which [`stride`](Self::stride) chooses.
    pub(super) fn range(self) -> Range<u64> {
        self.skip..self.take.map_or(u64::MAX, |take| self.skip.saturating_add(take.get()))
    }

    /// True if all records are taken.
    pub(super) fn is_all(self) -> bool {
        self == Self::default()
    }

    /// True if the record `number` of a file is taken; `range` are the numbers of the file to choose from.
    fn has(self, range: &Range<u64>, number: u64) -> bool {
        let stride = self.stride.map_or(1, NonZeroU64::get);
        range.contains(&number) && (number - range.start).is_multiple_of(stride)
    }
}

/// The records of a block that are taken.
pub(super) struct ChosenRecords {
    /// For each record, true if it is taken.
    pub(super) taken: Vec<bool>,
    /// The records, among those that are taken, with a wanted field that cannot be read: their places, and why.
    pub(super) refused: Vec<(usize, (Reason, String))>,
    /// The number of records that were left out because of their fields.
    pub(super) left_out: u64,
}

impl RecordSelection {
    /// True if all records are taken, by no field.
    pub(super) fn is_all(&self) -> bool {
        self.fields.is_empty() && self.numbers.is_all()
    }

    /// True if the choice reads fields, which need not be parts of a record's shape.
    pub(super) fn reads_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The records of a block that are taken. The first has the number `first` in its file; the choice is among the
    /// numbers `range` of the file. One that its fields leave out is counted if it is `of_split`.
    pub(super) fn records(
        &self,
        block: &Block,
        of_split: &dyn Fn(RawContent<'_>) -> bool,
        range: &Range<u64>,
        first: u64,
    ) -> ChosenRecords {
        let (mut left_out, mut refused) = (0, Vec::new());
        let taken = (first..).zip(block.records().enumerate()).map(|(number, (place, record))| {
            if !self.numbers.has(range, number) {
                return false;
            }
            match self.has_fields(&record) {
                Ok(taken) => {
                    left_out += u64::from(!taken && of_split(record.raw));
                    taken
                }
                Err(fault) => {
                    refused.push((place, (fault.reason, fault.message)));
                    true
                }
            }
        });
        let taken = taken.collect();
        ChosenRecords { taken, refused, left_out }
    }

    /// True if the fields of a record have wanted values. Fails for a record whose fields cannot be read.
    fn has_fields(&self, record: &RawRecord<'_>) -> Result<bool, Fault> {
        if self.fields.is_empty() {
            return Ok(true);
        }
        let is_read = |name: &str| self.fields.iter().any(|(field, _)| field == name);
        let object = object_of(record.raw, is_read)?;
        Ok(self.fields.iter().all(|(name, wanted)| wanted.has(object.get(name.as_str()))))
    }

    /// The documents of wanted lengths, by their indices; `None` if all are.
    pub(super) fn documents(&self, documents: &Documents) -> Option<Vec<usize>> {
        if self.min_tokens.is_none() && self.max_tokens.is_none() {
            return None;
        }
        let wanted = self.lengths();
        let is_wanted = |at: &usize| {
            let length = documents.document(*at).column(INPUTS).len();
            u32::try_from(length).is_ok_and(|length| wanted.contains(&length))
        };
        let all: Vec<usize> = (0..documents.len()).filter(is_wanted).collect();
        (all.len() < documents.len()).then_some(all)
    }

    fn lengths(&self) -> RangeInclusive<u32> {
        self.min_tokens.unwrap_or(0)..=self.max_tokens.unwrap_or(u32::MAX)
    }
}
