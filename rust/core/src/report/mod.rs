//! [`Report`]: the ledger of a run, the fill of its rows, and its timing.
//!
//! The [ledger] of a run becomes its [tally], and with the [facts](run_facts) of the run [its report](run_report).

pub(super) mod count;
pub(super) mod histogram;
pub mod ledger;
mod length_warnings;
pub mod listed_path;
pub(super) mod note_counts;
pub(super) mod note_kinds;
pub(super) mod reason;
mod run_facts;
mod run_report;
mod tally;
pub mod timing;

pub use crate::report::histogram::{Histogram, Lengths};
pub use run_facts::{InputReport, RunFacts};
pub use run_report::{AppendedFiles, Balance, PlaceReport, Report, ShareReport};
pub(crate) use tally::ReportCounts;
