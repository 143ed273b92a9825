//! [`RunContext`]: the inputs and options of a run, as all of its parts see them.

use std::sync::Arc;

use crate::config::RowColumn;
use crate::config::identity::Identity;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::pack::OpenPacks;
use crate::pipeline::{Job, SplitSide};
use crate::report::ledger::Count;
use crate::source::FoundFiles;
use crate::source::extents::extent::number_line;
use crate::util::control::Control;
use crate::util::sealed_state_dict::WrittenOnce;

use super::lane::caller_blocks::CallerSources;
use super::lane::source_mix::PoolChoice;
use super::state::StreamState;
use super::state::run_identity;
use super::stream_options::{OnEnd, RankRows, StreamOptions};

/// An all-reduce: returns the greatest of the numbers that the ranks pass.
pub type AllReduceMax<'a> = &'a dyn Fn(u64) -> Result<u64>;

/// The conditions under which a rank ends.
pub(super) struct EndCondition<'a> {
    /// The rows of a step in which some lanes have none left; `None` if other lanes fill the step.
    pub(super) rows: Option<OnEnd>,
    /// The number of steps of the run, those before a resume included, if it is known.
    pub(super) steps: Option<u64>,
    /// The most steps that are asked for, those before a resume included.
    pub(super) most: Option<u64>,
    pub(super) agree: Option<AllReduceMax<'a>>,
    /// The rows of the run that no rank delivers, if that is known.
    pub(super) left_out: u64,
}

/// The parts of a run.
pub(super) struct RunContext<'a> {
    pub(super) job: &'a Job,
    pub(super) found: &'a FoundFiles,
    pub(super) caller_sources: &'a CallerSources,
    pub(super) options: &'a StreamOptions,
    pub(super) control: &'a Control,
    pub(super) share: RankRows,
    pub(super) identity: Arc<WrittenOnce<Identity>>,
    pub(super) from: Option<StreamState>,
    pub(super) open: OpenPacks,
    /// The split whose records alone are taken, if there are splits.
    pub(super) side: Option<SplitSide>,
    /// A warning of a split that holds out fewer documents than were asked for.
    pub(super) split_warning: Option<String>,
    /// True if documents keep the hash of their content, by which a number of them is held out.
    pub(super) hashes: bool,
    /// True if lines are counted, since rows name them.
    pub(super) counted: bool,
}

impl<'a> RunContext<'a> {
    pub(super) fn new(
        job: &'a Job,
        found: &'a FoundFiles,
        caller_sources: &'a CallerSources,
        options: &'a StreamOptions,
        from: Option<StreamState>,
        control: &'a Control,
    ) -> Result<Self> {
        let packs = &job.options.rows.packing;
        let Some(open) = OpenPacks::in_stream(packs, options.open_packs) else {
            let reason = format!(
                "is `{}`, but a stream packs by `sequential`, `concat`, `none` or `best_fit`",
                packs.strategy.name()
            );
            return Err(Error::option("strategy", reason));
        };
        let identity = run_identity::of_run(job, found, options, control)?;
        if let Some(state) = &from {
            let of_options =
                state.is_beginning().then(|| run_identity::of_options(&job.options, options));
            state.check(
                of_options.as_ref().unwrap_or(&identity),
                options.strict,
                options.index_dir(),
            )?;
        }
        let from = from.filter(|state| !state.is_beginning());
        let share = options.share(from.as_ref().map(|state| state.lanes))?;
        if let Some(state) = &from {
            state.check_rank(share)?;
        }
        let counted = job.options.rows.columns.contains(&RowColumn::SourceRow);
        let mut run = Self {
            job,
            found,
            caller_sources,
            options,
            control,
            share,
            identity: Arc::new(WrittenOnce::new(identity)),
            from,
            open,
            side: None,
            split_warning: None,
            hashes: false,
            counted,
        };
        (run.side, run.split_warning) = run.split()?;
        Ok(run)
    }

    /// The sources of each pool.
    pub(super) fn pools(&self, pool_choice: &PoolChoice) -> Result<Vec<Vec<usize>>> {
        let sources = 0..self.found.sources.len();
        if self.options.weights.is_empty() {
            if sources.len() > 1 && self.found.files.iter().any(|file| !file.is_file()) {
                let reason = "are missing: records of functions and iterables are read as they come, so the share of each \
                              source must be said";
                return Err(Error::option("weights", reason));
            }
            return Ok(vec![sources.collect()]);
        }
        if sources.len() != pool_choice.pools() {
            let reason = format!("name {} sources of {}", pool_choice.pools(), sources.len());
            return Err(Error::option("weights", reason));
        }
        if self.found.sources.iter().any(|source| source.repeat.get() > 1) {
            let reason = "is given beside `weights`, which say how often a source comes; leave one of them out";
            return Err(Error::option("repeat", reason));
        }
        Ok(sources.map(|source| vec![source]).collect())
    }

    /// The packed documents and tokens of a source before.
    pub(super) fn packed_of(&self, name: &str, has_counts: bool) -> Count {
        let before = self.from.as_ref().filter(|_| has_counts);
        before.map_or_else(Count::default, |state| state.counts.share(name))
    }

    /// The number of the line of a document.
    pub(super) fn line_of(&self, document: &Document<'_>) -> Result<u64> {
        let mut origin = document.origin();
        if !self.counted {
            number_line(self.found, &mut origin, self.control)?;
        }
        Ok(origin.line)
    }
}
