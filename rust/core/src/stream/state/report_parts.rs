//! [`ReportParts`]: the parts of a report in a state beside the counts: the lengths of documents, and first places.
//!
//! The first places of a run are those of its parts together, and each stands once. So records that a resumed run reads again
//! change nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::error::Origin;
use crate::pipeline::PackedCounts;
use crate::report::Histogram;
use crate::report::ledger::{DroppedRecord, Ledger, Reason};

/// The most lengths that a state tells apart. They take about 2.5 KB; above, lengths are told apart to a hundredth.
pub(crate) const MOST_LENGTHS: usize = 1024;

/// The lengths of some documents, and those of their packed pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Histogram>")]
pub(crate) struct AddedLengths([Histogram; 2]);

/// One histogram where no document was cut: both are the same.
impl Serialize for AddedLengths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [lengths, packed] = &self.0;
        let written = if lengths == packed { &self.0[..1] } else { &self.0 };
        written.serialize(serializer)
    }
}

impl TryFrom<Vec<Histogram>> for AddedLengths {
    type Error = &'static str;

    fn try_from(written: Vec<Histogram>) -> Result<Self, Self::Error> {
        match &written[..] {
            [both] => Ok(Self([both.clone(), both.clone()])),
            [lengths, packed] => Ok(Self([lengths.clone(), packed.clone()])),
            _ => Err("holds one histogram or two"),
        }
    }
}

impl AddedLengths {
    pub(crate) fn of(packed_counts: &PackedCounts) -> Self {
        Self(packed_counts.lengths().map(Histogram::clone))
    }
}

/// The part of a state that reports need beside the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReportParts {
    lengths: AddedLengths,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    firsts: BTreeMap<Reason, Origin>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<DroppedRecord>,
}

impl ReportParts {
    pub(crate) fn of(packed_counts: &PackedCounts) -> Self {
        let Ledger { firsts, places, .. } = &packed_counts.ledger;
        let (firsts, places) = (firsts.clone(), places.clone());
        Self { lengths: AddedLengths::of(packed_counts), firsts, places }
    }

    /// Adds these parts to the counts of a resumed run, on one rank only, so that the ranks together count them once.
    pub(crate) fn add_to(&self, packed_counts: &mut PackedCounts) {
        packed_counts.add_lengths(&self.lengths.0);
        packed_counts.ledger.merge(self.ledger());
    }

    /// Takes lengths out that a later row added. First places stay: they come again with the row.
    pub(crate) fn take_out(&mut self, added: &AddedLengths) {
        for (lengths, added) in self.lengths.0.iter_mut().zip(&added.0) {
            lengths.take_out(added);
        }
    }

    /// Adds that of another rank.
    pub(crate) fn add(&mut self, other: &Self) {
        for (lengths, others) in self.lengths.0.iter_mut().zip(&other.lengths.0) {
            lengths.merge(others);
            lengths.shorten(MOST_LENGTHS);
        }
        let mut ledger = self.ledger();
        ledger.merge(other.ledger());
        Ledger { firsts: self.firsts, places: self.places, .. } = ledger;
    }

    /// The first places.
    fn ledger(&self) -> Ledger {
        let (firsts, places) = (self.firsts.clone(), self.places.clone());
        Ledger { places, firsts, ..Ledger::default() }
    }
}
