//! [`RunContext::end`]: the table at which ranks end together, and the count of rows that says so.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::counts;
use super::counts::RowCounts;
use super::run_context::{AllReduceMax, EndCondition, RunContext};
use super::stream_options::{EndAgreement, RankRows, StreamOptions};
use crate::error::{Error, Result};

impl RunContext<'_> {
    /// The table at which this rank ends.
    pub(super) fn end<'b>(&self, agree: Option<AllReduceMax<'b>>) -> Result<EndCondition<'b>> {
        let rows = self.options.end();
        let (first, step) = self.begun();
        let most = self.options.steps_allowed(first, step).map(|steps| step + steps);
        let none = EndCondition { rows, steps: None, most, agree: None, left_out: 0 };
        match (rows, &self.options.together) {
            (Some(rows), Some(EndAgreement::Counted(dir))) if !self.share.is_alone() => {
                let counted = self.counted(Some(dir))?;
                let steps = counted.steps(rows, self.share, first);
                let delivered = first + steps.saturating_mul(self.share.step());
                let left_out = counted.rows_from(delivered);
                Ok(EndCondition { steps: Some(step + steps), left_out, ..none })
            }
            (Some(_), Some(EndAgreement::Agreed)) if !self.share.is_alone() => {
                let reason = "is missing, by which ranks agree on the last table";
                let agree = agree.ok_or_else(|| Error::option("ranks.all_reduce", reason))?;
                Ok(EndCondition { agree: Some(agree), ..none })
            }
            _ => Ok(none),
        }
    }

    /// The first row of the run that no rank has delivered, and the steps before it.
    pub(super) fn begun(&self) -> (u64, u64) {
        self.from.as_ref().map_or((0, 0), |state| (state.rows, state.step))
    }

    /// The rows of each lane: from the folder `dir`, or counted now and written there. One of several
    /// processes counts, and the others wait for it.
    pub(super) fn counted(&self, dir: Option<&Path>) -> Result<RowCounts> {
        if self.options.epochs.is_none() {
            let reason = "has no end, so the rows of the stream cannot be counted";
            return Err(Error::option("epochs", reason));
        }
        let Some(dir) = dir.filter(|_| self.kept_in().is_some()) else { return self.count() };
        counts::kept(dir, &self.name_of_count(), self.control, || self.count())
    }

    /// The folder that counts are kept in. Functions and records without an identity may be others each time.
    pub(super) fn kept_in(&self) -> Option<&Path> {
        let mut records = self.found.sources.iter().filter_map(|source| source.records.as_ref());
        let are_known = records.all(|it| it.known_as.is_some());
        self.options.index_dir().filter(|_| are_known && self.job.transform.is_identified())
    }

    /// Counts the rows of all lanes.
    fn count(&self) -> Result<RowCounts> {
        let options = StreamOptions { rank_source: None, max_steps: None, ..self.options.clone() };
        let run = self.single_process(&options, false);
        let (_, counted) = run.with_lanes(Instant::now(), |delivery, take| delivery.count(take))?;
        Ok(counted)
    }

    /// The run of one process that reads all lanes from their beginning.
    pub(super) fn single_process<'b>(
        &'b self,
        options: &'b StreamOptions,
        hashes: bool,
    ) -> RunContext<'b> {
        let share = RankRows { lanes: self.share.lanes, batch: 1, rank: 0, world_size: 1 };
        RunContext {
            options,
            share,
            hashes,
            split_warning: None,
            from: None,
            identity: Arc::clone(&self.identity),
            open: self.open.clone(),
            ..*self
        }
    }

    /// A hash of all that decides the rows of the lanes.
    fn name_of_count(&self) -> String {
        // Lanes have the same rows however they end together.
        let any = StreamOptions { on_end: None, ..self.options.clone() };
        let identity = self.identity.with_stream_options(&any).name();
        let (lanes, epochs) = (self.share.lanes, self.options.epochs);
        let all = serde_json::json!([identity, lanes, epochs]);
        blake3::hash(all.to_string().as_bytes()).to_hex().to_string()
    }
}
