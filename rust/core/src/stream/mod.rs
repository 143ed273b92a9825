//! Packs while the input is read: tables of rows one after the other, resumable at any table.
//!
//! A run is made of **lanes**, 64 or more. Each lane reads its own part of the input, in an order that the
//! seed decides, and packs it alone. Row `g` of the run is row `g / lanes` of lane `g % lanes`. So the rows
//! of a run are a function of the inputs, the options and the seed. Ranks, threads and prefetching only
//! decide who makes them, and when.
//!
//! * [`lane`] packs the documents of one lane: which extents it reads in which order, its blocks, its rows.
//! * [`delivery`] makes tables of the rows of the lanes, up to the step at which all ranks end.
//! * [`record_selection`] and [`split_side`] say which records are read.
//! * [`counts`] counts the rows of a finite run, so that its ranks end together.
//! * [`state`] is the state of a run after a table: the places of its lanes, and the identity of its inputs and options.
//!
//! The thread that delivers takes rows from the lanes in turn and makes tables of them. Each table carries
//! the state after it, so data that was read ahead is never part of a state. Loading a state makes the open
//! rows again: the blocks of their documents are read, and only these documents are tokenized.

mod counts;
mod delivery;
mod lane;
mod options;
mod ranks_without_rows;
mod record_selection;
mod run_context;
mod select_values;
mod split_side;
mod state;
mod step_rows;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow::record_batch::RecordBatch;

use crate::config::Inputs;
use crate::error::{Error, Origin, Result};
use crate::pipeline::{ChosenBlocks, FileHeads, InputFacts, Job, PackedCounts};
use crate::report::Report;
use crate::source::extents::extent::number_line;
use crate::source::{Index, discover};
use crate::util::control::{Control, Phase};

use delivery::{Delivery, no_padding};
use lane::Lane;
use lane::block_queues::BlockQueues;
use lane::caller_rounds::{Rounds, floor_of};
use lane::packed_block::PackedBlock;
use lane::record_order::RecordOrder;
use lane::source_mix::{PoolChoice, PoolFiles};
use lane::walk::{Walk, WalkFiles};
use run_context::{End, RunContext};
use state::file_numbers::FileNumbers;
use state::lane_state::{LaneState, PoolState, ReadHashes};
use state::report_parts::MOST_LENGTHS;

pub use counts::RowCounts;
pub use lane::caller_rounds::Supplies;
pub use options::{
    Deal, MOST_LANES, MixUnit, OnEnd, OnExhausted, RankRows, StreamOptions, Together,
};
pub use record_selection::{Numbers, RecordSelection};
pub use run_context::Agree;
pub use select_values::{Number, Scalar, WantedValues};
pub use state::row_state::{PLACES_KEY, state_after_row};
pub use state::{STATE_KEY, State, merge_states};

/// Packs `inputs` on the fly and hands over a table for each step, with the state after it in its metadata.
///
/// Starts at the state `from`, or at the beginning. Ranks that end together by asking each other do so by
/// `agree`: it takes a number, and returns the greatest that a rank gave.
///
/// # Errors
///
/// [`Error::Option`] for a strategy that needs all lengths first, for ranks that cannot share the lanes, and
/// for a state of another run.
pub fn stream(
    job: &Job,
    (inputs, supplies): (&Inputs, &Supplies),
    options: &StreamOptions,
    from: Option<State>,
    agree: Option<Agree<'_>>,
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    job.validate(inputs)?;
    let started = Instant::now();
    let found = discover(inputs, control)?;
    let run = RunContext::new(job, &found, supplies, options, from, control)?;
    let end = run.end(agree)?;
    let (report, ()) =
        run.with_lanes(started, |delivery, take| delivery.tables(&end, take, emit))?;
    Ok(report)
}

/// Counts the rows that each lane of a finite stream has. The count is kept in the folder that
/// [`Together::Counted`] names, if it does, and read from there by the next call of the same run.
///
/// # Errors
///
/// [`Error::Option`] as in [`stream`], and for an endless stream.
pub fn count(
    job: &Job,
    (inputs, supplies): (&Inputs, &Supplies),
    options: &StreamOptions,
    control: &Control,
) -> Result<RowCounts> {
    job.validate(inputs)?;
    let found = discover(inputs, control)?;
    let run = RunContext::new(job, &found, supplies, options, None, control)?;
    let dir = match &options.together {
        Some(Together::Counted(dir)) => Some(dir.as_path()),
        _ => None,
    };
    let counted = run.counted(dir)?;
    let steps = match options.end() {
        Some(end) => counted.steps(end, run.share, 0),
        None => counted.rows.iter().sum::<u64>().div_ceil(run.share.step()),
    };
    Ok(RowCounts { steps, ..counted })
}

impl RunContext<'_> {
    /// The table at which this rank ends.
    fn end<'b>(&self, agree: Option<Agree<'b>>) -> Result<End<'b>> {
        let rows = self.options.end();
        let (first, step) = self.begun();
        let most = self.options.steps_allowed(first, step).map(|steps| step + steps);
        let none = End { rows, steps: None, most, agree: None, left_out: 0 };
        match (rows, &self.options.together) {
            (Some(rows), Some(Together::Counted(dir))) if !self.share.is_alone() => {
                let counted = self.counted(Some(dir))?;
                let steps = counted.steps(rows, self.share, first);
                let delivered = first + steps.saturating_mul(self.share.step());
                let left_out = counted.rows_from(delivered);
                Ok(End { steps: Some(step + steps), left_out, ..none })
            }
            (Some(_), Some(Together::Agreed)) if !self.share.is_alone() => {
                let reason = "is missing, by which ranks agree on the last table";
                let agree = agree.ok_or_else(|| Error::option("ranks.all_reduce", reason))?;
                Ok(End { agree: Some(agree), ..none })
            }
            _ => Ok(none),
        }
    }

    /// The first row of the run that no rank has delivered, and the steps before it.
    fn begun(&self) -> (u64, u64) {
        self.from.as_ref().map_or((0, 0), |state| (state.rows, state.step))
    }

    /// The rows of each lane: from the folder `dir`, or counted now and written there. One of several
    /// processes counts, and the others wait for it.
    fn counted(&self, dir: Option<&Path>) -> Result<RowCounts> {
        if self.options.epochs.is_none() {
            let reason = "has no end, so the rows of the stream cannot be counted";
            return Err(Error::option("epochs", reason));
        }
        let Some(dir) = dir.filter(|_| self.kept_in().is_some()) else { return self.count() };
        counts::kept(dir, &self.name_of_count(), self.control, || self.count())
    }

    /// The folder that counts are kept in. Functions and records without an identity may be others each time.
    fn kept_in(&self) -> Option<&Path> {
        let mut records = self.found.sources.iter().filter_map(|source| source.records.as_ref());
        let are_known = records.all(|it| it.known_as.is_some());
        self.options.index_dir().filter(|_| are_known && self.job.transform.is_identified())
    }

    /// Counts the rows of all lanes.
    fn count(&self) -> Result<RowCounts> {
        let options = StreamOptions { rank_source: None, max_steps: None, ..self.options.clone() };
        let run = self.alone(&options, false);
        let (_, counted) = run.with_lanes(Instant::now(), |delivery, take| delivery.count(take))?;
        Ok(counted)
    }

    /// The run of one process that reads all lanes from their beginning.
    fn alone<'b>(&'b self, options: &'b StreamOptions, hashes: bool) -> RunContext<'b> {
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

    /// Calls `work` with the lanes of this rank and the documents for them, and reports.
    fn with_lanes<T>(
        &self,
        started: Instant,
        work: impl FnOnce(
            &mut Delivery<'_, '_>,
            &mut dyn FnMut(usize) -> Result<Option<PackedBlock>>,
        ) -> Result<T>,
    ) -> Result<(Report, T)> {
        let Self { job, found, control, options, share, .. } = *self;
        control.enter(Phase::Tokenize);
        let epochs = options.epochs.map_or(1, std::num::NonZeroU64::get);
        control.expect_bytes(found.bytes().saturating_mul(epochs));
        let mut about = InputFacts::new(job, found);
        let mut layout = job.layout(about.sources.clone())?;
        let pads = matches!(options.end(), Some(OnEnd::Pad | OnEnd::Repeat));
        let padding = job.options.rows.pad_token_id.or(job.pad_id).or(job.eos_id);
        let padding = padding.filter(|_| pads || options.epochs.is_none());
        match padding {
            Some(id) => layout = layout.with_padding_rows(id),
            None if pads => return Err(no_padding()),
            None => {}
        }
        let number = |origin: &mut Origin| {
            if self.counted { Ok(()) } else { number_line(found, origin, control) }
        };
        let split = (self.side, self.hashes);
        let single = ChosenBlocks::new(job, &found.sources, &number, split, control)?;
        let heads = FileHeads::new(job, found);
        let order = (job.options.rows.packing.seed, options.shuffle, &options.choice);
        let pool_choice = PoolChoice::new(options);
        let pools = self.pools(&pool_choice)?;
        let names: Vec<String> = (0..pools.len()).map(|pool| options.name(pool)).collect();
        let index = (self.counted, Index(options.index_dir()));
        let order = |pool| RecordOrder::new(found, pool, order, share.lanes, index, control);
        let orders = pools.into_iter().map(order).collect::<Result<Vec<RecordOrder<'_>>>>()?;
        let shown = names.iter().zip(&orders);
        let shown = shown.map(|(name, order)| format!("`{name}` ({})", order.shown_files()));
        let files = orders.iter().map(|order| PoolFiles::of(order.all_files())).collect();
        let any_lanes = share.is_alone() || options.deal == Deal::Rows;
        let lane_step = if any_lanes { 1 } else { share.step() };
        let pool_choice = pool_choice.showing(shown.collect(), files, lane_step);
        let files = WalkFiles { heads: &heads, single: &single, control };

        let (begun, step) = self.begun();
        let numbers = share.lanes_of_rank(begun);
        let states = self.lane_states(&numbers, &pool_choice)?;
        let rounds = self.rounds(&orders, &names, (&numbers, &states))?;
        let has_rounds = rounds.iter().any(Option::is_some);
        let (open, job_options) = (&self.open, &job.options);
        let mut lanes = Vec::with_capacity(numbers.len());
        let mut walks = Vec::with_capacity(numbers.len() * orders.len());
        for (&lane, from) in numbers.iter().zip(states) {
            let mut again = Lane::blocks_again(&from, orders.len());
            for (pool, order) in orders.iter().zip(&rounds).enumerate() {
                let order = (order.0, order.1.as_ref());
                let place = from.pools.get(pool).copied().unwrap_or_default();
                let again: VecDeque<_> = std::mem::take(&mut again[pool]);
                let epochs = if place.exhausted { Some(0) } else { pool_choice.epochs_of_walk() };
                let next = (place.next, place.hashes);
                walks.push(Mutex::new(Walk::new(order, files, lane, epochs, again, next)));
            }
            let (number, pools) = ((lane, share.lanes), orders.len());
            lanes.push(Lane::new(open, job_options, &pool_choice, pools, number, from, has_rounds));
        }
        let mut packed_counts = PackedCounts::default();
        let has_counts = self.from.as_ref().is_some_and(|from| from.has_counts_of(&numbers, share));
        if let Some(state) = self.from.as_ref().filter(|_| has_counts) {
            state.counts.restore_to(&mut packed_counts);
            state.carried.add_to(&mut packed_counts);
        }
        let numbered = FileNumbers::new(found);
        let threads = job.options.work.threads.get();
        let queues = BlockQueues::new(walks.len(), threads);
        let mut delivery = Delivery {
            run: self,
            numbers,
            lanes,
            rounds: &rounds,
            pool_choice: &pool_choice,
            shares: names.iter().map(|name| self.packed_of(name, has_counts)).collect(),
            names,
            packed_counts: &mut packed_counts,
            numbered: &numbered,
            layout,
            next: begun,
            step,
            padding,
            padded: self.from.as_ref().filter(|_| has_counts).map_or(0, |it| it.counts.padded()),
            warnings: Vec::new(),
        };
        let makers =
            Makers { queues: &queues, walks: &walks, orders: &orders, single: &single, control };
        let done = makers.run(threads, |take| work(&mut delivery, take))?;
        about.facts.warnings.append(&mut delivery.warnings);
        let reading = delivery.lanes.len();
        drop(delivery);
        drop(walks);
        about.facts.warnings.extend(single.of_split().or_else(|| self.split_warning.clone()));
        about.facts.warnings.extend(orders.iter().flat_map(|order| order.warnings(reading)));
        numbered.restore(&mut packed_counts.ledger, self.counted, control)?;
        packed_counts.shorten_lengths(MOST_LENGTHS);
        about.read(job, heads.into_seen());
        if let Some(source) = &options.rank_source {
            let RankRows { rank, world_size, .. } = share;
            let warning = format!("this was rank {rank} of {world_size}, as {source} say");
            about.facts.warnings.push(warning);
        }
        packed_counts.check_max_lost(job.options.work.max_lost)?;
        Ok((packed_counts.close(&job.options).report(&job.options, about, started)?, done))
    }
}

impl<'a> RunContext<'a> {
    /// The states of lanes, by the state that the run starts from.
    fn lane_states(&self, numbers: &[usize], pool_choice: &PoolChoice) -> Result<Vec<LaneState>> {
        let pool = |number: (usize, usize), pool| {
            let credit = pool_choice.first_credit(pool, number);
            PoolState { credit, ..PoolState::default() }
        };
        let new = |lane| {
            let pools =
                (0..pool_choice.pools()).map(|at| pool((lane, self.share.lanes), at)).collect();
            LaneState { pools, ..LaneState::default() }
        };
        let state = |&lane: &usize| match &self.from {
            None => Ok(new(lane)),
            Some(state) => state.lane(lane).map(|mut state| {
                // Records read from here on may be other ones, and are known by their hashes.
                let unknown = state.pools.iter_mut().filter(|_| !self.options.strict);
                unknown.for_each(|pool| pool.hashes = ReadHashes::default());
                state.pictures = state.pictures.filter(|_| self.options.strict);
                state
            }),
        };
        numbers.iter().map(state).collect()
    }

    /// The rounds of each pool that the caller gives, for the lanes of this rank.
    fn rounds(
        &self,
        orders: &[RecordOrder<'a>],
        names: &[String],
        (numbers, states): (&[usize], &[LaneState]),
    ) -> Result<Vec<Option<Rounds<'a>>>> {
        let of_pool = |(pool, order): (usize, &RecordOrder<'_>)| {
            let Some((file, taken)) = order.caller_records() else { return Ok(None) };
            let mut first = vec![None; self.share.lanes];
            for (&lane, state) in numbers.iter().zip(states) {
                first[lane] = Some(floor_of(state, pool));
            }
            let from = self.from.as_ref().and_then(|state| state.saved.get(&names[pool]));
            Rounds::new(self.found, file, self.supplies, taken, first, from, self.control).map(Some)
        };
        orders.iter().enumerate().map(of_pool).collect()
    }
}

/// The threads that make documents for the lanes.
struct Makers<'m, 'w, 'a> {
    queues: &'m BlockQueues<PackedBlock>,
    /// The walks of each lane, one for each pool.
    walks: &'m [Mutex<Walk<'w, 'a>>],
    orders: &'m [RecordOrder<'a>],
    single: &'m ChosenBlocks<'a>,
    control: &'m Control,
}

impl Makers<'_, '_, '_> {
    /// Runs `deliver` on this thread, with the documents that `threads` other threads make.
    fn run<T>(
        &self,
        threads: usize,
        deliver: impl FnOnce(&mut dyn FnMut(usize) -> Result<Option<PackedBlock>>) -> Result<T>,
    ) -> Result<T> {
        let alone = RefCell::new(None);
        self.queues.served(
            threads,
            || {
                let mut work = self.single.worker();
                move |claim| self.make(claim, &mut work)
            },
            |has_workers| {
                let help = || {
                    let claim = if has_workers { None } else { self.queues.try_claim() };
                    let mut work = alone.borrow_mut();
                    let work = work.get_or_insert_with(|| self.single.worker());
                    claim.map(|claim| self.make(claim, work)).is_some()
                };
                deliver(&mut |feed| {
                    self.control.tick()?;
                    self.queues.take(feed, help)
                })
            },
        )
    }

    /// Makes the documents of the next block of a feed.
    fn make(
        &self,
        claim: lane::block_queues::FeedClaim,
        work: &mut impl FnMut(
            crate::source::Block,
            Option<Arc<crate::record::Shape>>,
            crate::pipeline::WantedRecords,
        ) -> Result<crate::pipeline::Outcome>,
    ) {
        let read = {
            let mut walk = self.walks[claim.feed].lock().unwrap_or_else(PoisonError::into_inner);
            self.control.tick().and_then(|()| walk.next()).and_then(|found| match found {
                None => Ok(None),
                // The caller's functions see the blocks of a lane in order.
                Some(found) => {
                    let block = self.single.transformed(found.block)?;
                    Ok(Some(lane::walk::WalkedBlock { block, ..found }))
                }
            })
        };
        match read {
            Ok(None) => self.queues.nothing(claim),
            Err(error) => {
                self.queues.store_result(claim, Err(error));
                self.queues.was_read(claim, true);
            }
            Ok(Some(found)) => {
                self.queues.was_read(claim, false);
                let order = &self.orders[claim.feed % self.orders.len()];
                self.queues.store_result(
                    claim,
                    PackedBlock::of(found, order, self.single, work, self.control),
                );
            }
        }
    }
}
