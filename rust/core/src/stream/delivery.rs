//! [`Delivery`]: makes tables from the rows of a rank's lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use super::counts::RowCounts;
use super::lane::caller_blocks::CallerBlocks;
use super::lane::packed_block::PackedBlock;
use super::lane::source_mix::PoolChoice;
use super::lane::{Lane, LaneContext};
use super::run_context::{EndCondition, RunContext};
use super::state::file_numbers::FileNumbers;
use super::state::report_parts::{AddedLengths, MOST_LENGTHS, ReportParts};
use super::state::row_state::{PLACES_KEY, RowState, places_text};
use super::state::{STATE_KEY, SourceSnapshot, StreamCounts, StreamState};
use super::step_rows::{StepRows, count_documents};
use super::stream_options::{OnEnd, RowAssignment};
use crate::assemble::{DocumentsOfRows, Layout, assembled, schema};
use crate::error::{Error, Result};
use crate::pack::{Piece, Plan};
use crate::pipeline::PackedCounts;
use crate::report::ledger::Count;

/// The lanes that were asked for their next row.
struct AskedLanes {
    lanes: Vec<usize>,
    /// True if the rank needs one of the rows, or a later one.
    is_needed: bool,
}

/// Returns the next documents of a feed.
pub(super) type NextDocuments<'t> = &'t mut dyn FnMut(usize) -> Result<Option<PackedBlock>>;

/// Makes tables from the rows of a rank's lanes.
pub(super) struct Delivery<'d, 'a> {
    pub(super) run: &'d RunContext<'a>,
    /// The numbers of the lanes of this rank, and the lanes.
    pub(super) numbers: Vec<usize>,
    pub(super) lanes: Vec<Lane>,
    /// The rounds of each pool that the caller gives.
    pub(super) rounds: &'d [Option<CallerBlocks<'a>>],
    pub(super) pool_choice: &'d PoolChoice,
    /// The names of the pools, and the packed documents and tokens of each.
    pub(super) names: Vec<String>,
    pub(super) shares: Vec<Count>,
    pub(super) packed_counts: &'d mut PackedCounts,
    pub(super) numbered: &'d FileNumbers<'a>,
    pub(super) layout: Layout,
    /// The first row of the run that no rank has delivered.
    pub(super) next: u64,
    /// Tables that each rank has delivered.
    pub(super) step: u64,
    /// The token of rows of padding, and the number of such rows.
    pub(super) padding: Option<u32>,
    pub(super) padded: u64,
    /// Warnings for the report.
    pub(super) warnings: Vec<String>,
}

impl Delivery<'_, '_> {
    pub(super) fn tables(
        &mut self,
        end: &EndCondition<'_>,
        take: NextDocuments<'_>,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let is_over = loop {
            let most = [end.most, end.steps].into_iter().flatten().min();
            let left = most.map_or(u64::MAX, |most| most.saturating_sub(self.step));
            let wanted = left.min(self.run.options.table_steps());
            if wanted == 0 {
                break end.steps.is_some_and(|steps| self.step >= steps);
            }
            let mut table = self.steps(wanted, end, take)?;
            let kept = Self::kept(&table, wanted, end)?;
            let given_up = table.split_off(kept);
            if !table.is_empty() {
                let batch = self.table(table, &given_up)?;
                self.run.control.count_rows(batch.num_rows() as u64);
                emit(batch)?;
            }
            self.give_up(given_up);
            if (kept as u64) < wanted {
                break true;
            }
        };
        if is_over && end.steps.is_some() && end.rows == Some(OnEnd::Pad) {
            self.require_end(take)?;
        }
        if self.padded > 0 {
            let reason = match end.rows {
                None => "in the place of lanes that give none",
                Some(_) => "so that all lanes end together",
            };
            self.warnings.push(format!("{} rows are padding, {reason}", self.padded));
        }
        if end.left_out > 0 {
            let (left_out, steps) = (end.left_out, self.step);
            self.warnings.push(format!(
                "{left_out} rows of all ranks were left out after table {steps}, because `ranks.on_end` is \"drop\""
            ));
        }
        let read_all = is_over && matches!(end.rows, None | Some(OnEnd::Pad));
        if is_over && self.step == 0 {
            self.read_lanes_without_rows(take)?;
        }
        if self.run.share.is_first_of_lanes() {
            // A lane without a row has lost all that it read.
            let lost = |lane: &Lane| is_over && self.step == 0 && lane.has_ended_without_rows();
            let counted: Vec<usize> =
                (0..self.lanes.len()).filter(|&at| read_all || lost(&self.lanes[at])).collect();
            for at in counted {
                self.count_lane(at);
            }
        }
        // The first of several ranks that resume has the counts of all, so each balances its own. So do ranks that share
        // lanes: a document is counted as read with one row, and as kept with another.
        let share = self.run.share;
        let shares_counts = !share.is_alone() && (self.run.from.is_some() || share.shares_lanes());
        if !read_all || self.names.len() > 1 || shares_counts {
            // Documents in open rows were read, and are in no row. The counts have only packed ones. Of a
            // mix, the last blocks may not be packed to their ends.
            self.packed_counts.end_early();
        }
        Ok(())
    }

    /// Counts the documents that a lane has read and dropped up to its last row.
    pub(super) fn count_lane(&mut self, at: usize) {
        let mut packed_counts = std::mem::take(self.lanes[at].packed_counts());
        self.numbered.number(&mut packed_counts.ledger);
        self.packed_counts.merge(packed_counts);
    }

    /// The steps of the next table: as many as are wanted, or fewer at the end.
    fn steps(
        &mut self,
        wanted: u64,
        end: &EndCondition<'_>,
        take: NextDocuments<'_>,
    ) -> Result<Vec<StepRows>> {
        let mut steps: Vec<StepRows> = Vec::new();
        while (steps.len() as u64) < wanted {
            let begun = steps.last().map_or(self.next, |step| step.next);
            let Some(step) = self.rows(begun, end, take)? else { break };
            steps.push(step);
        }
        Ok(steps)
    }

    /// The number of steps up to the end of the run, among those that were found of the wanted ones. Ranks agree on it.
    fn kept(steps: &[StepRows], wanted: u64, end: &EndCondition<'_>) -> Result<usize> {
        let found = steps.len() as u64;
        let needed = || steps.iter().take_while(|step| step.is_needed).count() as u64;
        let kept = match (end.agree, end.rows) {
            (Some(agree), Some(OnEnd::Drop)) => wanted.saturating_sub(agree(wanted - found)?),
            (Some(agree), _) => agree(needed())?,
            (None, Some(OnEnd::Pad | OnEnd::Repeat)) if end.steps.is_none() => needed(),
            (None, _) => found,
        };
        Ok(usize::try_from(kept.min(found)).expect("steps in memory"))
    }

    /// Leaves the counts of steps that are not delivered to their lanes.
    fn give_up(&mut self, steps: Vec<StepRows>) {
        for step in steps {
            self.give_back(step.others, step.packed_counts);
        }
    }

    /// Gives counts back to their lanes.
    fn give_back(
        &mut self,
        others: Vec<(usize, PackedCounts)>,
        packed_counts: Vec<(usize, PackedCounts)>,
    ) {
        for (at, packed_counts) in others.into_iter().chain(packed_counts) {
            self.lanes[at].packed_counts().merge(packed_counts);
        }
    }

    /// Fails if a lane has a row left after the counted end.
    fn require_end(&mut self, take: NextDocuments<'_>) -> Result<()> {
        for at in 0..self.lanes.len() {
            if self.with_lane(at, take, Lane::has_row)? {
                let reason = "holds a count of rows of other inputs; remove it";
                return Err(Error::option("cache_dir", reason));
            }
        }
        Ok(())
    }

    /// The rows of the step after the row `begun`; `None` after the last.
    fn rows(
        &mut self,
        begun: u64,
        end: &EndCondition<'_>,
        take: NextDocuments<'_>,
    ) -> Result<Option<StepRows>> {
        let share = self.run.share;
        let is_endless = self.run.options.epochs.is_none();
        let mut rows: Vec<(usize, Vec<Piece>)> = Vec::with_capacity(share.batch.min(share.lanes));
        let mut asked = AskedLanes { lanes: Vec::with_capacity(rows.capacity()), is_needed: false };
        let (mut packed_counts, mut others) = (Vec::with_capacity(rows.capacity()), Vec::new());
        let mut row = begun + share.rank as u64 * share.batch as u64;
        if !self.pass_over(begun..row, end, take, &mut asked, &mut others)? {
            self.give_back(others, packed_counts);
            return Ok(None);
        }
        while rows.len() < share.batch {
            let at = self.lane_of(row).expect("a lane of this rank");
            row += 1;
            let found = self.ask(at, take, &mut asked, &mut packed_counts)?;
            match (found, end.rows) {
                (Some(pieces), _) => rows.push((at, pieces)),
                (None, Some(OnEnd::Drop)) => {
                    self.give_back(others, packed_counts);
                    return Ok(None);
                }
                (None, Some(OnEnd::Pad | OnEnd::Repeat)) => rows.push((at, Vec::new())),
                (None, None) if self.lanes.iter().all(Lane::is_ended) => break,
                (None, None) if is_endless && self.takes_place(at) => rows.push((at, Vec::new())),
                (None, None) => {}
            }
        }
        let behind = row..begun + share.step();
        if !self.pass_over(behind, end, take, &mut asked, &mut others)? {
            self.give_back(others, packed_counts);
            return Ok(None);
        }
        let AskedLanes { lanes: mut read_lanes, mut is_needed } = asked;
        // The lanes of this table may have ended before others. A lane that was only looked into keeps its state and its
        // counts: which lanes are looked into depends on the number of ranks.
        for at in 0..self.lanes.len() {
            if is_needed || (end.rows.is_none() && !is_endless) {
                break;
            }
            is_needed = self.with_lane(at, take, Lane::has_row)?;
        }
        if !is_needed && self.has_lost_all() {
            self.give_back(others, packed_counts);
            return Err(self.no_rows_error()?);
        }
        if rows.is_empty() {
            self.give_back(others, packed_counts);
            return Ok(None);
        }
        read_lanes.sort_unstable();
        read_lanes.dedup();
        let in_step = !share.is_alone() || end.rows.is_some();
        let next = if in_step { begun + share.step() } else { row };
        let before = read_lanes.iter().map(|&at| (at, self.lanes[at].save())).collect();
        Ok(Some(StepRows {
            rows,
            is_needed,
            next,
            before,
            packed_counts,
            others,
            saved: self.saved(),
        }))
    }

    /// The lane of a row of the run, if it is one of this rank.
    fn lane_of(&self, row: u64) -> Option<usize> {
        let number = usize::try_from(row % self.run.share.lanes as u64).expect("fewer lanes");
        self.numbers.binary_search(&number).ok()
    }

    /// Reads the rows that other ranks take from lanes which they share. Returns `false` if the run ends before one of them.
    fn pass_over(
        &mut self,
        rows: Range<u64>,
        end: &EndCondition<'_>,
        take: NextDocuments<'_>,
        asked: &mut AskedLanes,
        packed_counts: &mut Vec<(usize, PackedCounts)>,
    ) -> Result<bool> {
        for row in if self.run.share.shares_lanes() { rows } else { 0..0 } {
            let Some(at) = self.lane_of(row) else { continue };
            let found = self.ask(at, take, asked, packed_counts)?;
            if found.is_none() && end.rows == Some(OnEnd::Drop) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next row of a lane, which is noted with the counts up to it.
    fn ask(
        &mut self,
        at: usize,
        take: NextDocuments<'_>,
        asked: &mut AskedLanes,
        packed_counts: &mut Vec<(usize, PackedCounts)>,
    ) -> Result<Option<Vec<Piece>>> {
        asked.lanes.push(at);
        let found = self.with_lane(at, take, Lane::next_row)?;
        let lane = &mut self.lanes[at];
        asked.is_needed |= found.is_some() && !lane.repeats();
        packed_counts.push((at, std::mem::take(lane.packed_counts())));
        Ok(found)
    }

    /// True if padding takes the place of a lane without rows in an endless run. One rank passes over a lane without a
    /// document; several stay in step.
    fn takes_place(&self, lane: usize) -> bool {
        !self.run.share.is_alone() || self.lanes[lane].has_documents()
    }

    /// Warns of rows of padding in the place of lanes that give none, once.
    fn warn_of_padding(&self, lane: usize) {
        let Self { numbers, lanes, .. } = self;
        let (why, when) = match &lanes[lane] {
            lane if !lane.is_ended() => ("has packed no document in a whole pass", ""),
            lane if lane.has_documents() => ("dropped all its documents", " in every step"),
            _ => ("has no document", " in every step"),
        };
        self.run.control.warn(format!(
            "lane {} of {} {why}, so rows of padding take its place{when}; take fewer `ranks.lanes`, more files, or a larger \
             `max_length`",
            numbers[lane], self.run.share.lanes
        ));
    }

    /// Counts a row of padding in the place of a lane.
    fn pad(&mut self, lane: usize) -> Result<()> {
        if self.run.options.epochs.is_none() {
            if self.padding.is_none() {
                return Err(no_padding());
            }
            self.warn_of_padding(lane);
        }
        self.padded += 1;
        Ok(())
    }

    /// Makes a table of the rows of some steps. The lanes have moved past the rows that are given up.
    fn table(&mut self, mut steps: Vec<StepRows>, given_up: &[StepRows]) -> Result<RecordBatch> {
        let packs = &self.run.job.options.rows.packing;
        let mut plan = Plan::new(packs.row_limit()).aligned_to(packs.align_documents_to);
        let mut padded = Vec::with_capacity(steps.len());
        for step in &steps {
            for (at, _) in step.rows.iter().filter(|(_, pieces)| pieces.is_empty()) {
                self.pad(*at)?;
            }
            padded.push(self.padded);
        }
        for (_, pieces) in steps.iter().flat_map(|step| &step.rows) {
            if pieces.is_empty() {
                plan.push_padding();
            } else {
                plan.push(pieces);
            }
        }
        let mut places = Vec::with_capacity(steps.len());
        let mut added = Vec::with_capacity(steps.len());
        let batch = {
            let rows = steps.iter().flat_map(|step| &step.rows);
            let stocks = rows.map(|(at, _)| self.lanes[*at].stock()).collect();
            let gathered = DocumentsOfRows::from_stores(stocks, &plan);
            let built = assembled(&gathered, 0..plan.rows(), &self.layout)?;
            let mut first = 0;
            for (step, padded) in steps.iter_mut().zip(padded) {
                let range = first..first + step.rows.len();
                first = range.end;
                let labels = built.labels.as_ref().map(|labels| labels[range.clone()].iter().sum());
                let mut packed_counts = PackedCounts::default();
                packed_counts.count_rows(&gathered, range, labels);
                count_documents(&self.lanes, &mut self.shares, &mut packed_counts, &step.rows);
                step.packed_counts.drain(..).for_each(|(_, of_lane)| packed_counts.merge(of_lane));
                self.numbered.number(&mut packed_counts.ledger);
                // The rows of the first step are never taken back.
                if !places.is_empty() {
                    added.push(AddedLengths::of(&packed_counts));
                }
                self.packed_counts.merge(packed_counts);
                (self.next, self.step) = (step.next, self.step + 1);
                let counts =
                    StreamCounts::of(self.packed_counts, named(&self.names, &self.shares), padded);
                let saved = std::mem::take(&mut step.saved);
                places.push(RowState::new(step.next, self.step, counts, saved));
            }
            built.batch
        };
        self.packed_counts.shorten_lengths(MOST_LENGTHS);
        for ((place, next), lengths) in places.iter_mut().zip(&steps[1..]).zip(added) {
            place.lengths = lengths;
            place.lanes = next.before.iter().map(|(at, state)| self.numbered(*at, state)).collect();
        }
        let last = places.pop().expect("a step");
        let state = self.state(last, given_up).to_json();
        let read_lanes = steps.iter().flat_map(|step| &step.before).map(|(at, _)| *at);
        for at in read_lanes.collect::<BTreeSet<_>>() {
            self.lanes[at].forget();
            for (pool, rounds) in self.rounds.iter().enumerate() {
                if let Some(rounds) = rounds
                    && self.lanes[at].is_exhausted(pool)
                {
                    rounds.leave(self.numbers[at]);
                }
            }
        }
        let mut schema = schema::with_metadata(&batch.schema(), STATE_KEY, state);
        if self.run.options.deal == RowAssignment::Rows {
            schema = schema::with_metadata(&schema, PLACES_KEY, places_text(&places));
        }
        Ok(batch.with_schema(schema)?)
    }

    /// Counts the rows of all lanes, and makes no table.
    pub(super) fn count(&mut self, take: NextDocuments<'_>) -> Result<RowCounts> {
        let mut rows = vec![0; self.lanes.len()];
        let mut tokens = 0;
        while !self.lanes.iter().all(Lane::is_ended) {
            for (at, rows) in rows.iter_mut().enumerate() {
                if self.with_lane(at, take, Lane::has_row)?
                    && let Some(pieces) = self.with_lane(at, take, Lane::next_row)?
                {
                    *rows += 1;
                    self.packed_counts.begin(&pieces);
                    tokens += pieces.iter().map(|piece| u64::from(piece.length)).sum::<u64>();
                    self.lanes[at].forget();
                }
            }
        }
        (0..self.lanes.len()).for_each(|at| self.count_lane(at));
        self.packed_counts.ledger.kept.tokens += tokens;
        self.packed_counts.rows += rows.iter().sum::<u64>();
        // Blocks of epochs that are read again may have been taken.
        self.packed_counts.end_early();
        Ok(RowCounts { rows, tokens, steps: 0 })
    }

    /// Calls `ask` with a lane and the tools that it packs with.
    pub(super) fn with_lane<T>(
        &mut self,
        at: usize,
        take: NextDocuments<'_>,
        ask: impl FnOnce(&mut Lane, &mut LaneContext<'_>) -> Result<T>,
    ) -> Result<T> {
        let (run, pools) = (self.run, self.names.len());
        let mut packed_counts = std::mem::take(self.lanes[at].packed_counts());
        let mut lane_context = LaneContext {
            options: &run.job.options,
            objective: &**self.layout.objective(),
            pool_choice: self.pool_choice,
            packed_counts: &mut packed_counts,
            take: &mut |pool| take(at * pools + pool),
            line_of: &|document| run.line_of(document),
        };
        let answer = ask(&mut self.lanes[at], &mut lane_context);
        *self.lanes[at].packed_counts() = packed_counts;
        answer
    }

    /// The state after a step. The lanes have moved past the rows that are given up.
    fn state(&self, after: RowState, given_up: &[StepRows]) -> StreamState {
        let share = self.run.share;
        let lanes = (0..self.lanes.len()).map(|at| self.numbered(at, &self.lanes[at].state()));
        let mut states: BTreeMap<usize, Arc<str>> = lanes.collect();
        for step in given_up.iter().rev() {
            states.extend(step.before.iter().map(|(at, state)| self.numbered(*at, state)));
        }
        StreamState {
            rows: after.rows,
            step: after.step,
            lanes: share.lanes,
            batch_size: share.batch,
            world_size: share.world_size,
            rank: (!share.is_alone()).then_some(share.rank),
            identity: Some(Arc::clone(&self.run.identity)),
            counts: after.counts,
            carried: ReportParts::of(self.packed_counts),
            states,
            saved: after.saved,
        }
    }

    /// The state of a lane, with the number of the lane.
    fn numbered(&self, at: usize, state: &Arc<str>) -> (usize, Arc<str>) {
        (self.numbers[at], Arc::clone(state))
    }

    /// The places in the sources that tell theirs, before all that the lanes need of them.
    fn saved(&self) -> BTreeMap<String, SourceSnapshot> {
        let of_pool = |(pool, rounds): (usize, &Option<CallerBlocks<'_>>)| {
            let floors = self.lanes.iter().filter_map(|lane| Some(lane.floors()?[pool]));
            let saved = rounds.as_ref()?.saved(floors.min()?)?;
            Some((self.names[pool].clone(), saved))
        };
        self.rounds.iter().enumerate().filter_map(of_pool).collect()
    }
}

/// The shares of several sources by their names.
fn named(names: &[String], shares: &[Count]) -> BTreeMap<String, Count> {
    let pairs = names.iter().cloned().zip(shares.iter().copied());
    pairs.filter(|_| names.len() > 1).collect()
}

/// The error of a run that needs rows of padding, without a token for them.
pub(super) fn no_padding() -> Error {
    let reason = "must be given: rows of padding fill up the steps where lanes have none, and no tokenizer names an id for them";
    Error::option("padding.token_id", reason)
}
