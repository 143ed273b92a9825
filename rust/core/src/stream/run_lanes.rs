//! [`RunContext::with_lanes`]: sets up the lanes of a rank, from the state that the run starts from.

use std::sync::Mutex;
use std::time::Instant;

use super::delivery::{Delivery, no_padding};
use super::document_makers::DocumentMakers;
use super::lane::Lane;
use super::lane::block_queues::BlockQueues;
use super::lane::caller_blocks::{CallerBlocks, floor_of};
use super::lane::lane_blocks::{LaneBlocks, LaneFiles, WalkStart};
use super::lane::packed_block::PackedBlock;
use super::lane::record_order::{OrderOptions, RecordOrder};
use super::lane::source_mix::{PoolChoice, PoolFiles};
use super::run_context::RunContext;
use super::state::file_numbers::FileNumbers;
use super::state::lane_state::{LaneState, PoolState, ReadHashes};
use super::state::report_parts::MOST_LENGTHS;
use super::stream_options::{OnEnd, RankRows, RowAssignment};
use crate::assemble::Layout;
use crate::error::{Origin, Result};
use crate::pipeline::{ChosenBlocks, FileHeads, InputFacts, PackedCounts};
use crate::report::Report;
use crate::source::FactIndex;
use crate::source::extents::extent::number_line;
use crate::util::control::Phase;

impl RunContext<'_> {
    /// A layout for rows of padding too, if the run may have some, and the id in them.
    fn with_padding_rows(&self, layout: Layout) -> Result<(Layout, Option<u32>)> {
        let Self { job, options, .. } = *self;
        let pads = matches!(options.end(), Some(OnEnd::Pad | OnEnd::Repeat));
        let padding = job.options.rows.pad_token_id.or(job.pad_id).or(job.eos_id);
        match padding.filter(|_| pads || options.epochs.is_none()) {
            Some(id) => Ok((layout.with_padding_rows(id), Some(id))),
            None if pads => Err(no_padding()),
            None => Ok((layout, None)),
        }
    }

    /// Calls `work` with the lanes of this rank and the documents for them, and reports.
    pub(super) fn with_lanes<T>(
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
        let (layout, padding) = self.with_padding_rows(job.layout(about.sources.clone())?)?;
        let number = |origin: &mut Origin| {
            if self.counted { Ok(()) } else { number_line(found, origin, control) }
        };
        let (side, hashes) = (self.side, self.hashes);
        let single = ChosenBlocks::new(job, &found.sources, &number, side, hashes, control)?;
        let heads = FileHeads::new(job, found);
        let pool_choice = PoolChoice::new(options);
        let pools = self.pools(&pool_choice)?;
        let names: Vec<String> = (0..pools.len()).map(|pool| options.name(pool)).collect();
        let order = |pool| RecordOrder::new(found, pool, self.order_options(), control);
        let orders = pools.into_iter().map(order).collect::<Result<Vec<RecordOrder<'_>>>>()?;
        let shown = names.iter().zip(&orders);
        let shown = shown.map(|(name, order)| format!("`{name}` ({})", order.shown_files()));
        let files = orders.iter().map(|order| PoolFiles::of(order.all_files())).collect();
        let any_lanes = share.is_alone() || options.deal == RowAssignment::Rows;
        let lane_step = if any_lanes { 1 } else { share.step() };
        let pool_choice = pool_choice.showing(shown.collect(), files, lane_step);
        let files = LaneFiles { heads: &heads, single: &single, control };

        let (begun, step) = self.begun();
        let numbers = share.lanes_of_rank(begun);
        let states = self.lane_states(&numbers, &pool_choice)?;
        let rounds = self.rounds(&orders, &names, &numbers, &states)?;
        let has_rounds = rounds.iter().any(Option::is_some);
        let (open, job_options) = (&self.open, &job.options);
        let mut lanes = Vec::with_capacity(numbers.len());
        let mut walks = Vec::with_capacity(numbers.len() * orders.len());
        for (&lane, from) in numbers.iter().zip(states) {
            let mut again = Lane::blocks_again(&from, orders.len());
            for (pool, (order, rounds)) in orders.iter().zip(&rounds).enumerate() {
                let place = from.pools.get(pool).copied().unwrap_or_default();
                let again = std::mem::take(&mut again[pool]);
                let epochs = if place.exhausted { Some(0) } else { pool_choice.epochs_of_walk() };
                let start = WalkStart { again, next: place.next, known: place.hashes };
                let rounds = rounds.as_ref();
                walks.push(Mutex::new(LaneBlocks::new(order, rounds, files, lane, epochs, start)));
            }
            let all = share.lanes;
            lanes.push(Lane::new(open, job_options, &pool_choice, lane, all, from, has_rounds));
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
        let makers = DocumentMakers {
            queues: &queues,
            walks: &walks,
            orders: &orders,
            single: &single,
            control,
        };
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
        let new = |lane| {
            let pool = |pool| PoolState {
                credit: pool_choice.initial_credit(pool, lane, self.share.lanes),
                ..PoolState::default()
            };
            let pools = (0..pool_choice.pools()).map(pool).collect();
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

    fn order_options(&self) -> OrderOptions<'a> {
        OrderOptions {
            seed: self.job.options.rows.packing.seed,
            shuffle: self.options.shuffle,
            choice: &self.options.choice,
            lanes: self.share.lanes,
            counted: self.counted,
            index: FactIndex(self.options.index_dir()),
        }
    }

    /// The rounds of each pool that the caller gives, for the lanes of this rank.
    fn rounds(
        &self,
        orders: &[RecordOrder<'a>],
        names: &[String],
        numbers: &[usize],
        states: &[LaneState],
    ) -> Result<Vec<Option<CallerBlocks<'a>>>> {
        let of_pool = |(pool, order): (usize, &RecordOrder<'_>)| {
            let Some((file, taken)) = order.caller_records() else { return Ok(None) };
            let mut first = vec![None; self.share.lanes];
            for (&lane, state) in numbers.iter().zip(states) {
                first[lane] = Some(floor_of(state, pool));
            }
            let from = self.from.as_ref().and_then(|state| state.saved.get(&names[pool]));
            CallerBlocks::new(
                self.found,
                file,
                self.caller_sources,
                taken,
                first,
                from,
                self.control,
            )
            .map(Some)
        };
        orders.iter().enumerate().map(of_pool).collect()
    }
}
