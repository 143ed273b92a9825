//! [`StreamOptions`]: how a stream packs, and [`Share`]: which of its rows a rank takes.

use std::num::{NonZeroU64, NonZeroUsize};

use crate::config::option_words;
use crate::error::{Error, Result};

/// Lanes at least, where nobody says how many.
const LANES: usize = 64;

/// Lanes at most: each takes some kilobytes, read or not.
pub const MOST_LANES: usize = 1 << 16;

option_words! {
    /// What the weights of sources are parts of.
    pub enum MixUnit {
        /// Tokens.
        Tokens = "tokens",
        /// Documents.
        Documents = "documents",
    }
}

option_words! {
    /// What happens in a lane when it has read a source as often as the epochs say.
    pub enum OnExhausted {
        /// The source is read again, until all sources have been read.
        Repeat = "repeat",
        /// The lane ends.
        Stop = "stop",
        /// The others share its weight.
        Drop = "drop",
    }
}

/// How a stream packs.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The names of the sources; their numbers serve where there are none.
    pub names: Vec<String>,
    /// The weights of the sources, each list from a row of the run on; without any, the sources are read as one.
    pub weights: Vec<(u64, Vec<f64>)>,
    /// What weights are parts of.
    pub weight_unit: MixUnit,
    /// What happens when a lane has read a source.
    pub on_exhausted: OnExhausted,
    /// Rows a table holds; the last may hold fewer.
    pub batch_rows: NonZeroUsize,
    /// Rows that each lane keeps open for `best_fit`.
    pub open_packs: NonZeroUsize,
    /// Whether records are read in an order that the seed decides.
    pub shuffle: bool,
    /// How often the input is read; without end if not given.
    pub epochs: Option<NonZeroU64>,
    /// The lanes; as few as ranks can share, but 64 at least, if not given.
    pub lanes: Option<NonZeroUsize>,
    /// The number of this rank.
    pub rank: usize,
    /// The ranks that share the rows.
    pub world_size: NonZeroUsize,
    /// What names the rank, where the caller does not.
    pub rank_source: Option<String>,
    /// The tables that each rank takes at most.
    pub max_steps: Option<u64>,
    /// Whether a state of a run with other options is refused.
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
        self.share(None).map(drop)
    }

    /// The name of a source.
    pub(super) fn name(&self, source: usize) -> String {
        self.names.get(source).map_or_else(|| source.to_string(), Clone::clone)
    }

    /// The rows of this rank, in a run of so many lanes if it was begun with them.
    pub(super) fn share(&self, begun: Option<usize>) -> Result<Share> {
        let (batch, world_size) = (self.batch_rows.get(), self.world_size.get());
        if self.rank >= world_size {
            let reason =
                format!("is {}, but the ranks of world_size={world_size} count from 0", self.rank);
            return Err(Error::option("rank", reason));
        }
        // A rank alone takes rows from all lanes, whatever the size of its tables.
        let alone = world_size == 1;
        let step = batch.checked_mul(world_size).filter(|step| *step <= MOST_LANES);
        let step = match step {
            Some(step) => step,
            None if alone => 1,
            None => {
                let reason = format!(
                    "times world_size={world_size} must be at most {MOST_LANES}, the most lanes of a run"
                );
                return Err(Error::option("batch_size", reason));
            }
        };
        let asked = self.lanes.map(NonZeroUsize::get);
        if let (Some(begun), Some(asked)) = (begun, asked)
            && begun != asked
        {
            let reason =
                format!("is {asked}, but the state is of a run with {begun}; leave it out");
            return Err(Error::option("lanes", reason));
        }
        let lanes = begun.or(asked);
        if !alone
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
            let reason = format!(
                "times `batch_size` is {world_size} x {batch} = {step}, which must divide the {lanes} lanes of the \
                 run; with {world_size} ranks `batch_size` may be {}, with batch_size={batch} the ranks may be {}",
                listed(&sizes),
                listed(&worlds)
            );
            return Err(Error::option("world_size", reason));
        }
        let lanes = lanes.unwrap_or_else(|| LANES.next_multiple_of(step));
        if !alone && self.epochs.is_some() {
            let reason = "is given for several ranks, which would not end at the same step; with `epochs=None` the \
                          input is read without end, and `max_steps` ends all ranks together";
            return Err(Error::option("epochs", reason));
        }
        Ok(Share { lanes, batch, rank: self.rank, world_size })
    }
}

fn listed(values: &[String]) -> String {
    if values.is_empty() { "none".to_owned() } else { values.join(", ") }
}

/// The rows that a rank takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The lanes of the run.
    pub lanes: usize,
    /// The rows of a table.
    pub batch: usize,
    /// The number of the rank.
    pub rank: usize,
    /// The ranks.
    pub world_size: usize,
}

impl Share {
    /// The rows that all ranks take in a step.
    pub(super) fn step(self) -> u64 {
        (self.batch * self.world_size) as u64
    }

    /// Whether there is one rank, which takes all rows.
    pub(super) fn is_alone(self) -> bool {
        self.world_size == 1
    }

    /// The lanes of which the rank takes rows, ascending, in a run that goes on with the row `first`.
    pub(super) fn lanes_of_rank(self, first: u64) -> Vec<usize> {
        let step = self.batch * self.world_size;
        let mine = |lane: &usize| {
            let first = usize::try_from(first % self.lanes as u64).expect("fewer lanes");
            let behind = (lane + self.lanes - first) % self.lanes;
            self.is_alone() || (behind % step) / self.batch == self.rank
        };
        (0..self.lanes).filter(mine).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_a_run_is_of_a_lane_of_the_rank_that_takes_it() {
        for (lanes, batch, world_size) in [(48, 2, 4), (48, 1, 12), (48, 4, 3), (12, 3, 2)] {
            for first in [0, 1, 7, 50] {
                for rank in 0..world_size {
                    let share = Share { lanes, batch, rank, world_size };
                    let mine = share.lanes_of_rank(first);
                    assert_eq!(mine.len(), lanes / world_size);
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
