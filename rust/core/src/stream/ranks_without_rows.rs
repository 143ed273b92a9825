//! Ranks without a row: the losses of their lanes, which are counted or raised.

use super::delivery::{Delivery, NextDocuments};
use super::lane::Lane;
use super::stream_options::OnEnd;
use crate::error::{Error, Result};

impl Delivery<'_, '_> {
    /// Reads the lanes of a run that has ended without a table, each up to its first row: some ranks know that they take none
    /// before they have read anything, and some lanes were not asked. Fails as a rank does that finds no row.
    pub(super) fn read_lanes_without_rows(&mut self, take: NextDocuments<'_>) -> Result<()> {
        let mut has_row = false;
        for at in 0..self.lanes.len() {
            has_row |= self.lanes[at].has_delivered() || self.with_lane(at, take, Lane::has_row)?;
        }
        if has_row || !self.has_lost_all() { Ok(()) } else { Err(self.no_rows_error()?) }
    }

    /// True if all lanes of this rank are without rows, now and later, and padding would take their place.
    pub(super) fn has_lost_all(&self) -> bool {
        let options = self.run.options;
        if options.epochs.is_none() {
            return true;
        }
        let pads = matches!(options.end(), Some(OnEnd::Pad | OnEnd::Repeat));
        // Of a finite run, ranks without a document wait for the others, and a loss may be allowed.
        pads && self.run.job.options.work.max_lost.is_none()
            && !self.lanes.iter().any(Lane::has_delivered)
            && self.lanes.iter().any(Lane::has_documents)
    }

    /// The error of a rank whose lanes give no row.
    pub(super) fn no_rows_error(&mut self) -> Result<Error> {
        (0..self.lanes.len()).for_each(|at| self.count_lane(at));
        let mut ledger = self.packed_counts.ledger.clone();
        self.numbered.restore(&mut ledger, self.run.counted, self.run.control)?;
        let lanes = self.lanes.len();
        Ok(ledger.nothing_in(lanes, lanes == self.run.share.lanes))
    }
}
