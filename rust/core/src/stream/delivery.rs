//! [`Delivery`]: makes tables from the rows of a rank's lanes.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;

use super::counts::Counted;
use super::lane::{Bench, Lane};
use super::made::Made;
use super::mix::Mix;
use super::options::OnEnd;
use super::rounds::Rounds;
use super::run::{End, Run};
use super::state::{Counts, STATE_KEY, Saved, State};
use crate::assemble::{Gathered, Layout, assembled, schema};
use crate::error::{Error, Result};
use crate::ledger::Count;
use crate::pack::{Piece, Plan};
use crate::pipeline::Books;
use crate::source::position::number_line;

/// Returns the next documents of a feed.
pub(super) type Take<'t> = &'t mut dyn FnMut(usize) -> Result<Option<Made>>;

/// Makes tables from the rows of a rank's lanes.
pub(super) struct Delivery<'d, 'a> {
    pub(super) run: &'d Run<'a>,
    /// The numbers of the lanes of this rank, and the lanes.
    pub(super) numbers: Vec<usize>,
    pub(super) lanes: Vec<Lane>,
    /// The rounds of each pool that the caller gives.
    pub(super) rounds: &'d [Option<Rounds<'a>>],
    pub(super) mix: &'d Mix,
    /// The names of the pools, and the packed documents and tokens of each.
    pub(super) names: Vec<String>,
    pub(super) shares: Vec<Count>,
    pub(super) books: &'d mut Books,
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

/// The rows of a table, each with the index of its lane. Rows without pieces are padding.
struct TableRows {
    rows: Vec<(usize, Vec<Piece>)>,
    /// Whether the rank has a row here or later that is neither padding nor of epochs read again.
    is_needed: bool,
    /// The first row of the run that no rank delivers up to this table.
    next: u64,
    /// The lanes that were asked for a row.
    asked: Vec<usize>,
}

impl Delivery<'_, '_> {
    pub(super) fn tables(
        &mut self,
        end: &End<'_>,
        take: Take<'_>,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let most = [*self.run.options.max_steps, end.steps].into_iter().flatten().min();
        let is_over = loop {
            if most.is_some_and(|most| self.step >= most) {
                break end.steps.is_some_and(|steps| self.step >= steps);
            }
            let table = self.rows(end, take)?;
            let is_needed = table.as_ref().is_some_and(|table| table.is_needed);
            let is_last = match (end.agree, end.rows) {
                (Some(agree), Some(OnEnd::Drop)) => agree(u64::from(table.is_none()))? > 0,
                (Some(agree), _) => agree(u64::from(is_needed))? == 0,
                (None, Some(OnEnd::Pad | OnEnd::Repeat)) => !is_needed && end.steps.is_none(),
                (None, _) => false,
            };
            let Some(table) = table else { break true };
            if is_last {
                break true;
            }
            let batch = self.table(table)?;
            self.run.control.count_rows(batch.num_rows() as u64);
            emit(batch)?;
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
                "{left_out} rows of all ranks were left out after table {steps}, because on_end is `drop`"
            ));
        }
        let read_all = is_over && matches!(end.rows, None | Some(OnEnd::Pad));
        // A run without a row has lost all that it read.
        if read_all || (is_over && !self.lanes.iter().any(Lane::has_given)) {
            (0..self.lanes.len()).for_each(|at| self.count_lane(at));
        }
        // The first of several ranks that resume has the counts of all, so each balances its own.
        let shares_counts = !self.run.share.is_alone() && self.run.from.is_some();
        if !read_all || self.names.len() > 1 || shares_counts {
            // Documents in open rows were read, and are in no row. The books count only packed ones. Of a
            // mix, the last blocks may not be packed to their ends.
            self.books.end_early();
        }
        Ok(())
    }

    /// Counts what a lane has read and dropped up to its last row.
    fn count_lane(&mut self, at: usize) {
        let books = std::mem::take(self.lanes[at].books());
        self.books.merge(books);
    }

    /// Counts the documents that begin in the rows of a table, and the shares of the sources in them.
    fn count_documents(&mut self, rows: &[(usize, Vec<Piece>)]) {
        for (at, pieces) in rows {
            self.books.begin(pieces);
            for piece in if self.names.len() > 1 { pieces } else { &[][..] } {
                let share = &mut self.shares[self.lanes[*at].pool_of(piece)];
                share.documents += u64::from(piece.start == 0);
                share.tokens += u64::from(piece.length);
            }
        }
    }

    /// Fails if a lane has a row left after the counted end.
    fn require_end(&mut self, take: Take<'_>) -> Result<()> {
        for at in 0..self.lanes.len() {
            if self.with_lane(at, take, Lane::has_row)? {
                let reason = "holds a count of rows of other inputs; remove it";
                return Err(Error::option("cache_dir", reason));
            }
        }
        Ok(())
    }

    /// The rows of the next table; `None` after the last.
    fn rows(&mut self, end: &End<'_>, take: Take<'_>) -> Result<Option<TableRows>> {
        let share = self.run.share;
        let is_endless = self.run.options.epochs.is_none();
        let mut rows: Vec<(usize, Vec<Piece>)> = Vec::with_capacity(share.batch.min(share.lanes));
        let mut asked = Vec::with_capacity(rows.capacity());
        let mut row = self.next + share.rank as u64 * share.batch as u64;
        let mut is_needed = false;
        while rows.len() < share.batch {
            let number = usize::try_from(row % share.lanes as u64).expect("fewer lanes");
            let at = self.numbers.binary_search(&number).expect("a lane of this rank");
            row += 1;
            asked.push(at);
            let found = self.with_lane(at, take, Lane::next_row)?;
            is_needed |= found.is_some() && !self.lanes[at].repeats();
            match (found, end.rows) {
                (Some(pieces), _) => rows.push((at, pieces)),
                (None, Some(OnEnd::Drop)) => return Ok(None),
                (None, Some(OnEnd::Pad | OnEnd::Repeat)) => rows.push((at, Vec::new())),
                (None, None) if self.lanes.iter().all(Lane::is_ended) => break,
                (None, None) if is_endless && self.takes_place(at) => rows.push((at, Vec::new())),
                (None, None) => {}
            }
        }
        // The lanes of this table may have ended before others.
        for at in 0..self.lanes.len() {
            if is_needed || (end.rows.is_none() && !is_endless) {
                break;
            }
            is_needed = self.with_lane(at, take, Lane::has_row)?;
            asked.push(at);
        }
        if !is_needed && self.has_lost_all() {
            return Err(self.lost_all()?);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        asked.sort_unstable();
        asked.dedup();
        let in_step = !share.is_alone() || end.rows.is_some();
        let next = if in_step { self.next + share.step() } else { row };
        Ok(Some(TableRows { rows, is_needed, next, asked }))
    }

    /// Whether padding takes the place of a lane without rows in a run without end. One rank passes over a lane without
    /// a document; several stay in step.
    fn takes_place(&self, lane: usize) -> bool {
        !self.run.share.is_alone() || self.lanes[lane].has_documents()
    }

    /// Whether no lane of this rank has had a row, or will have one, where padding would take their place.
    fn has_lost_all(&self) -> bool {
        let options = self.run.options;
        if options.epochs.is_none() {
            return true;
        }
        let pads = matches!(options.end(), Some(OnEnd::Pad | OnEnd::Repeat));
        // Of a finite run, ranks without a document wait for the others, and a loss may be allowed.
        pads && self.run.job.options.work.max_lost.is_none()
            && !self.lanes.iter().any(Lane::has_given)
            && self.lanes.iter().any(Lane::has_documents)
    }

    /// The error of a rank of which no lane gives a row.
    fn lost_all(&mut self) -> Result<Error> {
        (0..self.lanes.len()).for_each(|at| self.count_lane(at));
        let mut ledger = self.books.ledger.clone();
        if !self.run.counted {
            for origin in ledger.firsts.values_mut() {
                number_line(self.run.found, origin, self.run.control)?;
            }
        }
        Ok(ledger.nothing_in(self.lanes.len()))
    }

    /// Warns of rows of padding in the place of lanes that give none, once.
    fn warn_of_padding(&self, lane: usize) {
        let Self { numbers, lanes, .. } = self;
        let why = if lanes[lane].has_documents() {
            "dropped all its documents"
        } else {
            "has no document"
        };
        self.run.control.warn(format!(
            "lane {} of {} {why}, so rows of padding take its place in every step; take fewer `lanes`, more files, or a \
             larger `max_length`",
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

    /// Makes a table of its rows.
    fn table(&mut self, table: TableRows) -> Result<RecordBatch> {
        let packs = &self.run.job.options.rows.packing;
        (self.next, self.step) = (table.next, self.step + 1);
        let mut plan = Plan::new(packs.row_limit()).aligned_to(packs.align_documents_to);
        for (at, pieces) in &table.rows {
            if pieces.is_empty() {
                self.pad(*at)?;
                plan.push_padding();
            } else {
                plan.push(pieces);
            }
        }
        let batch = {
            let stocks = table.rows.iter().map(|(at, _)| self.lanes[*at].stock()).collect();
            let gathered = Gathered::apart(stocks, &plan);
            let range = 0..plan.rows();
            let made = assembled(&gathered, range.clone(), &self.layout)?;
            self.books.count_rows(&gathered, range, made.labels);
            made.batch
        };
        self.count_documents(&table.rows);
        for at in table.asked {
            self.lanes[at].settle();
            self.count_lane(at);
            for (pool, rounds) in self.rounds.iter().enumerate() {
                if let Some(rounds) = rounds
                    && self.lanes[at].is_gone(pool)
                {
                    rounds.leave(self.numbers[at]);
                }
            }
        }
        let state = self.state().to_json();
        let schema = schema::with_metadata(&batch.schema(), STATE_KEY, state);
        Ok(batch.with_schema(schema)?)
    }

    /// Counts the rows of all lanes, and makes no table.
    pub(super) fn count(&mut self, take: Take<'_>) -> Result<Counted> {
        let mut rows = vec![0; self.lanes.len()];
        let mut tokens = 0;
        while !self.lanes.iter().all(Lane::is_ended) {
            for (at, rows) in rows.iter_mut().enumerate() {
                if self.with_lane(at, take, Lane::has_row)?
                    && let Some(pieces) = self.with_lane(at, take, Lane::next_row)?
                {
                    *rows += 1;
                    self.books.begin(&pieces);
                    tokens += pieces.iter().map(|piece| u64::from(piece.length)).sum::<u64>();
                    self.lanes[at].forget();
                }
            }
        }
        (0..self.lanes.len()).for_each(|at| self.count_lane(at));
        self.books.ledger.kept.tokens += tokens;
        self.books.rows += rows.iter().sum::<u64>();
        // Blocks of epochs that are read again may have been taken.
        self.books.end_early();
        Ok(Counted { rows, tokens, steps: 0 })
    }

    /// Calls `ask` with a lane and what it packs with.
    fn with_lane<T>(
        &mut self,
        at: usize,
        take: Take<'_>,
        ask: impl FnOnce(&mut Lane, &mut Bench<'_>) -> Result<T>,
    ) -> Result<T> {
        let (run, pools) = (self.run, self.names.len());
        let mut books = std::mem::take(self.lanes[at].books());
        let mut bench = Bench {
            options: &run.job.options,
            objective: &**self.layout.objective(),
            mix: self.mix,
            books: &mut books,
            take: &mut |pool| take(at * pools + pool),
            line_of: &|document| run.line_of(document),
        };
        let answer = ask(&mut self.lanes[at], &mut bench);
        *self.lanes[at].books() = books;
        answer
    }

    /// The state after the last table.
    fn state(&self) -> State {
        let share = self.run.share;
        let named = self.names.iter().cloned().zip(self.shares.iter().copied());
        let shares = named.filter(|_| self.names.len() > 1).collect();
        State {
            rows: self.next,
            step: self.step,
            lanes: share.lanes,
            batch_size: share.batch,
            world_size: share.world_size,
            identity: self.run.identity.clone(),
            counts: Counts::of(self.books, shares, self.padded),
            states: self.numbers.iter().copied().zip(self.lanes.iter().map(Lane::state)).collect(),
            saved: self.saved(),
        }
    }

    /// The places in the sources that tell theirs, before all that the lanes need of them.
    fn saved(&self) -> BTreeMap<String, Saved> {
        let of_pool = |(pool, rounds): (usize, &Option<Rounds<'_>>)| {
            let floors = self.lanes.iter().filter_map(|lane| Some(lane.floors()?[pool]));
            let saved = rounds.as_ref()?.saved(floors.min()?)?;
            Some((self.names[pool].clone(), saved))
        };
        self.rounds.iter().enumerate().filter_map(of_pool).collect()
    }
}

/// The error of a run that needs rows of padding, without a token for them.
pub(super) fn no_padding() -> Error {
    let reason = "must be given: rows of padding fill up the steps where lanes have none, and no tokenizer names an id for them";
    Error::option("pad_token_id", reason)
}
