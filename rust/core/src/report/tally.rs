//! [`ReportCounts`]: the counts that a report is made of.

use super::histogram::Histogram;
use super::ledger::{Ledger, PictureCount};

/// The ledger, lengths, rows and tokens that a report is made from.
#[derive(Debug, Default)]
pub(crate) struct ReportCounts {
    pub(crate) ledger: Ledger,
    /// Lengths of the documents that were read.
    pub(crate) lengths: Histogram,
    pub(crate) rows: u64,
    pub(crate) lower_bound: u64,
    /// The tokens of the rows, without padding and repeated rows.
    pub(crate) filled: u64,
    /// The pictures of the rows, likewise, if rows have limits of pictures.
    pub(crate) packed_pictures: PictureCount,
    pub(crate) trained_tokens: u64,
}
