//! [`PoolChoice`]: chooses the pool of the next document of a lane, by weights.
//!
//! Each lane keeps a credit for each pool. A document adds credit to all pools, each by its weight, and takes
//! the sum from its own pool. The pool with the most credit gives the next document, or the next row. So the shares of a lane
//! are off by one document at most, and the state is a few integers.

use std::cmp::Reverse;

use crate::source::{Container, SourceFile, can_be_divided, is_line_file};
use crate::storage::Location;
use crate::stream::stream_options::{MixUnit, OnEnd, OnExhausted, StreamOptions};
use crate::util::message::{ShownPath, in_shell};

/// The approximate sum of the weights of all pools.
const WHOLE: f64 = 65_536.0;

/// The approximate sum of the weights where one of them would be no part of [`WHOLE`]. Times the tokens of the longest
/// document it fits 64 bits.
const FINE: f64 = 1_073_741_824.0;

/// The tokens of a document of a rare pool, as far as its first document is put off.
const TYPICAL_TOKENS: i64 = 1024;

/// The remedy for records that one lane reads, whatever file they are in.
const AS_LINES: &str =
    "write its records as JSON Lines without compression, in which a lane begins at any line";

/// The files of a pool, as far as a remedy depends on them.
#[derive(Clone, Debug)]
pub(crate) struct PoolFiles {
    /// The first; `None` if the caller gives the records.
    first: Option<SourceFile>,
    count: u64,
    bytes: u64,
}

impl PoolFiles {
    pub(crate) fn of<'a>(files: impl Iterator<Item = &'a SourceFile>) -> Self {
        let none = Self { first: None, count: 0, bytes: 0 };
        files.fold(none, |sum, file| Self {
            first: sum.first.or_else(|| Some(file.clone())),
            count: sum.count + 1,
            bytes: sum.bytes + file.size,
        })
    }
}

/// Chooses among the pools of a lane.
#[derive(Clone, Debug)]
pub(crate) struct PoolChoice {
    /// The weights, each list from a row of the run on.
    schedule: Vec<(u64, Vec<i64>)>,
    /// The pools whose weight is no part of [`WHOLE`] at the beginning.
    rare: Vec<bool>,
    unit: MixUnit,
    pub(crate) on_exhausted: OnExhausted,
    /// The number of epochs; endless if `None`.
    epochs: Option<u64>,
    /// True if a lane that has read all epochs reads them again.
    rounds: bool,
    /// The names of the pools with their files, as messages show them.
    shown: Vec<String>,
    /// The files of each pool.
    files: Vec<PoolFiles>,
    /// A number that must divide the lanes of the run.
    lane_step: u64,
}

impl PoolChoice {
    pub(crate) fn new(options: &StreamOptions) -> Self {
        let are_rare = |weights: &Vec<f64>| -> Vec<bool> {
            let least = 0.5 / WHOLE * weights.iter().sum::<f64>();
            weights.iter().map(|weight| *weight > 0.0 && *weight < least).collect()
        };
        let has_rare = options.weights.iter().any(|(_, weights)| are_rare(weights).contains(&true));
        let all = if has_rare { FINE } else { WHOLE };
        let whole = |weights: &Vec<f64>| {
            let sum: f64 = weights.iter().sum();
            #[expect(clippy::cast_possible_truncation, reason = "a part of a small number")]
            let part = |weight: &f64| (weight / sum * all).round() as i64;
            // The least weight is one, or the pool would never be chosen.
            let part = |weight: &f64| if *weight > 0.0 { part(weight).max(1) } else { 0 };
            weights.iter().map(part).collect()
        };
        let rare = options.weights.first().map_or_else(Vec::new, |(_, weights)| are_rare(weights));
        let mut schedule: Vec<(u64, Vec<i64>)> =
            options.weights.iter().map(|(row, weights)| (*row, whole(weights))).collect();
        if schedule.is_empty() {
            schedule.push((0, vec![1]));
        }
        Self {
            schedule,
            rare,
            unit: options.weight_unit,
            on_exhausted: options.on_exhausted,
            epochs: options.epochs.map(std::num::NonZeroU64::get),
            rounds: options.epochs.is_some() && options.end() == Some(OnEnd::Repeat),
            shown: Vec::new(),
            files: Vec::new(),
            lane_step: 1,
        }
    }

    /// Sets the names of the pools as messages show them, the files of each, and a number that must divide the lanes.
    pub(crate) fn showing(self, shown: Vec<String>, files: Vec<PoolFiles>, lane_step: u64) -> Self {
        Self { shown, files, lane_step, ..self }
    }

    /// A number of lanes below that of the run, each of which has a file of a pool; `None` if the ranks allow none.
    pub(crate) fn few_lanes(&self, pool: usize, lanes: u64) -> Option<u64> {
        let files = self.files.get(pool).map_or(1, |files| files.count);
        let most = files.min(lanes.saturating_sub(1));
        Some(most - most % self.lane_step).filter(|few| *few > 0)
    }

    /// The remedy for a pool whose files cannot be shared by so many lanes. Its first file stands for all.
    pub(crate) fn to_divide(&self, pool: usize, lanes: u64) -> String {
        let Some(PoolFiles { first: Some(first), bytes, .. }) = self.files.get(pool) else {
            return AS_LINES.to_owned();
        };
        let shown = ShownPath(&first.path).to_string();
        let path = in_shell(&shown);
        match (first.format.container, first.format.compression) {
            (Container::Mds, None) => "take more records".to_owned(),
            _ if matches!(is_line_file(first), Ok(true)) => "take more records".to_owned(),
            _ if can_be_divided(first, *bytes, lanes) => format!(
                "have `fastpack reindex {path} -o framed/` divide its files into parts of 1 MiB"
            ),
            (Container::Lines, Some(compression)) => {
                let command = match first.location {
                    Location::Local(_) => format!(" (`{} {path}`)", compression.command()),
                    Location::Remote(..) => String::new(),
                };
                format!("decompress its files{command}, in which a lane then begins at any line")
            }
            _ => AS_LINES.to_owned(),
        }
    }

    /// A pool as messages show it.
    pub(crate) fn shown(&self, pool: usize) -> &str {
        self.shown.get(pool).map_or("", String::as_str)
    }

    /// The epochs after which the blocks of a pool end; `None` if the lane decides where they end.
    pub(crate) fn epochs_of_walk(&self) -> Option<u64> {
        let repeats = self.pools() > 1 && self.on_exhausted == OnExhausted::Repeat;
        self.epochs.filter(|_| !repeats && !self.rounds)
    }

    /// True if a lane that has read all epochs reads them again.
    pub(crate) fn has_rounds(&self) -> bool {
        self.rounds
    }

    /// True if no epoch is the last.
    pub(crate) fn is_endless(&self) -> bool {
        self.epochs.is_none()
    }

    /// True if a pool without documents may end before this epoch: no round names a later end.
    pub(crate) fn may_end(&self, epoch: u64, round: u64) -> bool {
        self.epochs.is_none() || self.is_past(epoch, round)
    }

    /// True if a round ends before this epoch.
    pub(crate) fn is_past(&self, epoch: u64, round: u64) -> bool {
        self.epochs.is_some_and(|epochs| epoch >= epochs.saturating_mul(round + 1))
    }

    /// True if each row holds documents of one pool, which is chosen for the row.
    pub(crate) fn chooses_rows(&self) -> bool {
        self.unit == MixUnit::Rows && self.pools() > 1
    }

    /// The number of pools.
    pub(crate) fn pools(&self) -> usize {
        self.schedule[0].1.len()
    }

    /// The weights of the pools for a row of the run.
    pub(crate) fn weights(&self, row: u64) -> &[i64] {
        let after = self.schedule.partition_point(|(from, _)| *from <= row);
        &self.schedule[after.saturating_sub(1)].1
    }

    /// The credit of a pool at the beginning of a lane.
    ///
    /// A rare pool begins in debt, in each lane with another part of a document: it would give the second document of
    /// every lane, since it has more credit than a pool that has just given one.
    pub(crate) fn initial_credit(&self, pool: usize, lane: usize, lanes: usize) -> i64 {
        if !self.rare.get(pool).is_some_and(|rare| *rare) {
            return 0;
        }
        let number = |number: usize| i64::try_from(number).expect("few lanes and pools");
        let (all, pools) = (self.schedule[0].1.iter().sum::<i64>(), number(self.pools()));
        let document = self.cost(1) * if self.unit == MixUnit::Tokens { TYPICAL_TOKENS } else { 1 };
        // The other pools lose together as much as it gains.
        let debt = all * document / (pools - 1) * pools;
        -(debt / (2 * number(lanes)) * (2 * number(lane) + 1))
    }

    /// The pool with the most credit, the first of several.
    pub(crate) fn choose(credits: impl Iterator<Item = (usize, i64)>) -> Option<usize> {
        credits.max_by_key(|&(pool, credit)| (credit, Reverse(pool))).map(|(pool, _)| pool)
    }

    /// The cost of a document of `tokens` tokens.
    pub(crate) fn cost(&self, tokens: u64) -> i64 {
        match self.unit {
            MixUnit::Tokens => i64::try_from(tokens).expect("documents are made of fewer tokens"),
            MixUnit::Documents | MixUnit::Rows => 1,
        }
    }
}
