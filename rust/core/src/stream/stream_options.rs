//! [`StreamOptions`]: the options of a stream, and [`RankRows`]: the rows of one rank.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use super::record_selection::RecordSelection;
use serde::Serialize;

use crate::config::{Validation, option_words};
use crate::error::{Error, Result};
use crate::util::wording::{message, set};

/// The least number of lanes by default.
const LANES: usize = 64;

/// The most lanes: each takes some kilobytes, even if it is not read.
pub const MOST_LANES: usize = 1 << 16;

option_words! {
    /// The unit of the weights of sources.
    pub enum MixUnit {
        /// Tokens.
        Tokens = "tokens",
        /// Documents.
        Documents = "documents",
        /// Rows, each of which holds documents of one source.
        Rows = "rows",
    }
}

option_words! {
    /// The treatment of a source that a lane has read for all epochs.
    pub enum OnExhausted {
        /// The source is read again, until all sources have been read.
        Repeat = "repeat",
        /// The lane ends.
        Stop = "stop",
        /// The others share its weight.
        Drop = "drop",
    }
}

option_words! {
    /// The rows of a step in which some lanes have none left.
    pub enum OnEnd {
        /// Rows of padding, until the last lane ends.
        Pad = "pad",
        /// None: the run ends before the first step that lacks a row.
        Drop = "drop",
        /// Rows of the epochs read again, until the last lane ends.
        Repeat = "repeat",
    }
}

/// The rows that a rank takes in each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAssignment {
    /// A table of rows that follow each other.
    Tables,
    /// One row. A table holds the rows of several steps, and the run can be resumed after each of them.
    Rows,
}

/// The way in which several ranks end a finite run at the same step.
#[derive(Clone, Debug)]
pub enum EndAgreement {
    /// By the rows of each lane, which are counted once and kept in this folder.
    Counted(PathBuf),
    /// By asking each other before each table.
    Agreed,
}

/// The options of a stream. Its serialized form is part of the identity of a run, so a new option is too, unless serde skips
/// it.
#[derive(Clone, Debug, Serialize)]
pub struct StreamOptions {
    /// The names of the sources; by default their numbers.
    #[serde(rename = "files")]
    pub names: Vec<String>,
    /// The weights of the sources, each list from a row of the run on. Without weights, the sources are read
    /// as one.
    pub weights: Vec<(u64, Vec<f64>)>,
    /// The unit of the weights.
    #[serde(rename = "weights.unit")]
    pub weight_unit: MixUnit,
    /// The treatment of a source that a lane has read for all epochs.
    #[serde(rename = "weights.on_exhausted")]
    pub on_exhausted: OnExhausted,
    /// The records that are taken.
    pub choice: RecordSelection,
    /// Rows a table holds; the last may hold fewer.
    /// It only decides which rank gets a row, so a resumed run may have another value.
    #[serde(skip)]
    pub batch_rows: NonZeroUsize,
    /// The rows that a rank takes in each step.
    /// It only decides which rank gets a row, so a resumed run may have another value.
    #[serde(skip)]
    pub deal: RowAssignment,
    /// Rows that each lane keeps open for `best_fit`.
    #[serde(rename = "strategy.open_rows")]
    pub open_packs: NonZeroUsize,
    /// True if records are read in an order that the seed decides.
    pub shuffle: bool,
    /// The number of epochs; endless by default.
    pub epochs: Option<NonZeroU64>,
    /// The rows of a step in which some lanes have none left. By default one rank leaves them out, and several
    /// pad.
    #[serde(rename = "ranks.on_end")]
    pub on_end: Option<OnEnd>,
    /// The way in which several ranks end a finite run at the same step.
    /// The numbers are the same by every way, so it may differ.
    #[serde(skip)]
    pub together: Option<EndAgreement>,
    /// The number of lanes; by default the least that the ranks can share, but at least 64.
    /// A state holds it itself, and another value is refused with the value that fits.
    #[serde(skip)]
    pub lanes: Option<NonZeroUsize>,
    /// The number of this rank.
    /// It only decides which rank gets a row, so a resumed run may have another value.
    #[serde(skip)]
    pub rank: usize,
    /// The number of ranks that share the rows.
    /// It only decides which rank gets a row, so a resumed run may have another value.
    #[serde(skip)]
    pub world_size: NonZeroUsize,
    /// The origin of the rank, where the caller does not give it.
    /// It only decides which rank gets a row, so a resumed run may have another value.
    #[serde(skip)]
    pub rank_source: Option<String>,
    /// The most tables that each rank takes. Of rows that are dealt one by one, the run has as many as these ranks would take
    /// from its beginning.
    /// The run ends earlier or later with the same rows up to there, so it may differ.
    #[serde(skip)]
    pub max_steps: Option<u64>,
    /// True if a state of a run with other options is refused.
    /// It says how a state is read, so it may differ.
    #[serde(skip)]
    pub strict: bool,
}

impl StreamOptions {
    /// Checks the rules between the options of a new run.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] about ranks that cannot share the rows.
    pub fn validate(&self) -> Result<()> {
        let mut rows = self.weights.iter().map(|(row, _)| *row);
        if rows.next().is_some_and(|first| first != 0)
            || !self.weights.is_sorted_by(|a, b| a.0 < b.0)
        {
            let reason = "must begin with row 0, and name later rows in ascending order";
            return Err(Error::option("weights", reason));
        }
        for (_, weights) in &self.weights {
            let sum: f64 = weights.iter().sum();
            if !sum.is_normal() || weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0)
            {
                let reason = "must be numbers of 0 or more, one of them more";
                return Err(Error::option("weights", reason));
            }
        }
        if let Some(documents @ Validation::Documents(_)) = self.choice.validation
            && self.index_dir().is_none()
        {
            let reason = format!(
                "is {documents} documents, which are counted first; give `cache_dir`, a folder to keep the count in, or a share \
                 such as 0.01"
            );
            return Err(Error::option("validation", reason));
        }
        self.share(None).map(drop)
    }

    /// The rows of a step in which some lanes have none left; `None` if other lanes fill the step.
    pub(super) fn end(&self) -> Option<OnEnd> {
        let alone = self.world_size == NonZeroUsize::MIN;
        self.on_end.or((!alone).then_some(OnEnd::Pad)).filter(|_| self.epochs.is_some())
    }

    /// The folder for counts of rows and lists of files.
    pub(super) fn index_dir(&self) -> Option<&Path> {
        match &self.together {
            Some(EndAgreement::Counted(dir)) => Some(dir),
            _ => None,
        }
    }

    /// The name of a source.
    pub(super) fn name(&self, source: usize) -> String {
        self.names.get(source).map_or_else(|| source.to_string(), Clone::clone)
    }

    /// The number of steps whose rows a table holds.
    pub(super) fn table_steps(&self) -> u64 {
        match self.deal {
            RowAssignment::Tables => 1,
            RowAssignment::Rows => self.batch_rows.get() as u64,
        }
    }

    /// The number of steps that `max_steps` allows after the row `begun` and `step` steps.
    pub(super) fn steps_allowed(&self, begun: u64, step: u64) -> Option<u64> {
        let most = self.max_steps?;
        Some(match self.deal {
            RowAssignment::Tables => most.saturating_sub(step),
            RowAssignment::Rows => {
                let ranks = self.world_size.get() as u64;
                let rows = most.saturating_mul(self.table_steps()).saturating_mul(ranks);
                rows.saturating_sub(begun).div_ceil(ranks)
            }
        })
    }

    /// The rows of this rank. `begun` is the number of lanes of a resumed run.
    pub(super) fn share(&self, begun: Option<usize>) -> Result<RankRows> {
        let world_size = self.world_size.get();
        let batch = match self.deal {
            RowAssignment::Tables => self.batch_rows.get(),
            RowAssignment::Rows => 1,
        };
        if self.rank >= world_size {
            let reason = message![
                format!("is {}, but the ranks of ", self.rank),
                set("ranks.world_size", world_size),
                " count from 0",
            ];
            return Err(Error::option("ranks.rank", reason));
        }
        // A single rank takes rows from all lanes, whatever the size of its tables. Ranks that take single rows may share lanes.
        let alone = world_size == 1;
        let shares_lanes = self.deal == RowAssignment::Rows;
        let step = batch.checked_mul(world_size).filter(|step| *step <= MOST_LANES);
        let step = match step {
            Some(step) => step,
            None if alone => 1,
            None => {
                let reason = message![
                    "times ",
                    set("ranks.world_size", world_size),
                    format!(" must be at most {MOST_LANES}, the most lanes of a run"),
                ];
                return Err(Error::option("batch_size", reason));
            }
        };
        let requested = self.lanes.map(NonZeroUsize::get);
        if let (Some(begun), Some(requested)) = (begun, requested)
            && begun != requested
        {
            let reason =
                format!("is {requested}, but the state is of a run with {begun}; leave it out");
            return Err(Error::option("ranks.lanes", reason));
        }
        let lanes = begun.or(requested);
        if !alone
            && !shares_lanes
            && let Some(lanes) = lanes
            && !lanes.is_multiple_of(step)
        {
            let fitting = |it: &usize| lanes.is_multiple_of(*it * world_size);
            let sizes: Vec<String> =
                (1..=lanes).filter(fitting).map(|size| size.to_string()).collect();
            let worlds: Vec<String> = (1..=lanes)
                .filter(|it| lanes.is_multiple_of(*it * batch))
                .map(|world| world.to_string())
                .collect();
            let reason = message![
                format!(
                    "times `batch_size` is {world_size} x {batch} = {step}, which must divide the {lanes} lanes of \
                     the run; with {world_size} ranks `batch_size` may be {}, with ",
                    listed(&sizes),
                ),
                set("batch_size", batch),
                format!(" the ranks may be {}", listed(&worlds)),
            ];
            return Err(Error::option("ranks.world_size", reason));
        }
        let lanes = lanes.unwrap_or_else(|| LANES.next_multiple_of(step));
        if !alone && self.epochs.is_some() && self.together.is_none() {
            let reason = "are finite for several ranks, which end at the same step only if the rows are counted; give \
                          `cache_dir`, a folder to keep their number in, or `ranks.all_reduce`, a function by which ranks \
                          agree; or leave the input without end, with `max_steps`";
            return Err(Error::option("epochs", reason));
        }
        Ok(RankRows { lanes, batch, rank: self.rank, world_size })
    }
}

fn listed(values: &[String]) -> String {
    if values.is_empty() { "none".to_owned() } else { values.join(", ") }
}

/// The rows of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRows {
    /// The number of lanes of the run.
    pub lanes: usize,
    /// The number of rows that a rank takes in a step.
    pub batch: usize,
    /// The number of the rank.
    pub rank: usize,
    /// The number of ranks.
    pub world_size: usize,
}

impl RankRows {
    /// The rows that all ranks take in a step.
    pub(super) fn step(self) -> u64 {
        (self.batch * self.world_size) as u64
    }

    /// True if there is only one rank, which takes all rows.
    pub(super) fn is_alone(self) -> bool {
        self.world_size == 1
    }

    /// True if ranks share lanes, because the ranks of a step do not divide them. Each rank reads all rows of its lanes,
    /// and takes its own.
    pub(super) fn shares_lanes(self) -> bool {
        !self.is_alone() && !self.lanes.is_multiple_of(self.batch * self.world_size)
    }

    /// True if this is the first of the ranks that share its lanes.
    pub(super) fn is_first_of_lanes(self) -> bool {
        self.rank < self.lane_stride()
    }

    /// The greatest number that divides both the rows of a step and the lanes: a rank takes every lane that is so many further.
    fn lane_stride(self) -> usize {
        let (mut divisor, mut rest) = (self.batch * self.world_size, self.lanes);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        divisor
    }

    /// The lanes of this rank, ascending, in a run that resumes at the row `first`.
    pub(super) fn lanes_of_rank(self, first: u64) -> Vec<usize> {
        let step = self.lane_stride();
        let rank = if self.shares_lanes() { self.rank % step } else { self.rank };
        let mine = |lane: &usize| {
            let first = usize::try_from(first % self.lanes as u64).expect("fewer lanes");
            let behind = (lane + self.lanes - first) % self.lanes;
            self.is_alone() || (behind % step) / self.batch == rank
        };
        (0..self.lanes).filter(mine).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_a_run_is_of_a_lane_of_the_rank_that_takes_it() {
        let cases = [
            (48, 2, 4, 12),
            (48, 1, 12, 4),
            (48, 4, 3, 16),
            (12, 3, 2, 6),
            (12, 1, 5, 12),
            (12, 1, 8, 3),
            (12, 1, 24, 1),
        ];
        for (lanes, batch, world_size, count) in cases {
            for first in [0, 1, 7, 50] {
                for rank in 0..world_size {
                    let share = RankRows { lanes, batch, rank, world_size };
                    let mine = share.lanes_of_rank(first);
                    assert_eq!(mine.len(), count);
                    assert_eq!(share.shares_lanes(), count * world_size > lanes);
                    for step in 0..20 {
                        let begin = first + (step * world_size as u64 + rank as u64) * batch as u64;
                        for row in begin..begin + batch as u64 {
                            let lane = usize::try_from(row % lanes as u64).expect("few lanes");
                            assert!(mine.contains(&lane), "row {row} of rank {rank}");
                        }
                    }
                }
            }
        }
    }
}
