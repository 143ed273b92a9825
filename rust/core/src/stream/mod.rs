//! Packs while the input is read: tables of rows one after the other, resumable at any table.
//!
//! A run is made of **lanes**, 64 or more. Each lane reads its own part of the input, in an order that the
//! seed decides, and packs it alone. Row `g` of the run is row `g / lanes` of lane `g % lanes`. So the rows
//! of a run are a function of the inputs, the options and the seed. Ranks, threads and prefetching only
//! decide who makes them, and when.
//!
//! * [`order`] decides which lane reads which extents in which order. The orders are permutations computed
//!   from the seed, without a buffer of records.
//! * [`walk`] reads the blocks of one lane, from any block on.
//! * [`lane`] packs the documents of one lane. Its state is the place of the next record, and the places of the documents
//!   in its open rows.
//! * [`board`] tells worker threads which lane needs a block, and holds the documents that they made.
//! * [`state`] is the state of a run after a table: the states of its lanes, and the identity of the run.
//!
//! The thread that delivers takes rows from the lanes in turn and makes tables of them. Each table carries
//! the state after it, so data that was read ahead is never part of a state. Loading a state makes the open
//! rows again: the blocks of their documents are read, and only these documents are tokenized.

mod bits;
mod board;
mod lane;
mod made;
mod mix;
mod options;
mod order;
mod place;
mod state;
mod walk;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use arrow::record_batch::RecordBatch;

use crate::assemble::{Gathered, Layout, rows, schema};
use crate::config::{Inputs, RowColumn, Strategy};
use crate::control::{Control, Phase};
use crate::document::Document;
use crate::error::{Error, Origin, Result};
use crate::ledger::Count;
use crate::pack::{OpenPacks, Piece, Plan};
use crate::pipeline::{About, Books, FileHeads, Job, SingleBlocks};
use crate::report::Report;
use crate::source::position::{is_line_file, line_of, number_line};
use crate::source::{Found, discover};
use crate::threads;

use board::{Board, CloseOnDrop};
use lane::{Bench, Lane};
use made::Made;
use mix::Mix;
use order::{Address, Order};
use place::{LaneState, PoolState};
use walk::{Files, Walk};

pub use options::{MOST_LANES, MixUnit, OnExhausted, Share, StreamOptions};
pub use state::{State, merge_states};

/// The metadata key of the state after a table of a stream, as JSON.
pub const STATE_KEY: &str = "fastpack_state";

/// Packs `inputs` on the fly and hands over a table for each step, with the state after it in its metadata.
///
/// Starts at the state `from`, or at the beginning.
///
/// # Errors
///
/// [`Error::Option`] for a strategy that needs all lengths first, for ranks that cannot share the lanes, and
/// for a state of another run.
pub fn stream(
    job: &Job,
    inputs: &Inputs,
    options: &StreamOptions,
    from: Option<State>,
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    job.validate(inputs)?;
    let started = Instant::now();
    let found = discover(inputs, control)?;
    let run = Run::new(job, &found, options, from, control)?;
    run.deliver(started, emit)
}

/// The parts of a run.
struct Run<'a> {
    job: &'a Job,
    found: &'a Found,
    options: &'a StreamOptions,
    control: &'a Control,
    share: Share,
    identity: state::Identity,
    from: Option<State>,
    open: OpenPacks,
    /// Whether lines are counted, since rows name them.
    counted: bool,
}

impl<'a> Run<'a> {
    fn new(
        job: &'a Job,
        found: &'a Found,
        options: &'a StreamOptions,
        from: Option<State>,
        control: &'a Control,
    ) -> Result<Self> {
        let packs = &job.options.rows.packing;
        let open = match packs.strategy {
            Strategy::BestFit => Some(OpenPacks::best_fit(packs, options.open_packs)),
            _ => OpenPacks::in_order(packs),
        };
        let Some(open) = open else {
            let reason = format!(
                "is `{}`, but a stream packs by `sequential`, `concat`, `none` or `best_fit`",
                packs.strategy.name()
            );
            return Err(Error::option("strategy", reason));
        };
        let lanes = from.as_ref().map(|state| state.lanes);
        let share = options.share(lanes)?;
        let identity = state::Identity::of(job, found, options, control)?;
        if let Some(state) = &from {
            state.check(&identity, options.strict)?;
        }
        let counted = job.options.rows.columns.contains(&RowColumn::SourceRow);
        Ok(Self { job, found, options, control, share, identity, from, open, counted })
    }

    /// Reads, packs and hands over.
    fn deliver(
        self,
        started: Instant,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Report> {
        let Self { job, found, control, options, share, .. } = self;
        control.enter(Phase::Tokenize);
        let epochs = options.epochs.map_or(1, std::num::NonZeroU64::get);
        control.expect_bytes(found.bytes().saturating_mul(epochs));
        let mut about = About::new(job, found);
        let layout = job.layout(about.sources.clone())?;
        let number = |origin: &mut Origin| {
            if self.counted { Ok(()) } else { number_line(found, origin, control) }
        };
        let single = SingleBlocks::new(job, &found.sources, &number, control)?;
        let heads = FileHeads::new(job, found);
        let order = (job.options.rows.packing.seed, options.shuffle);
        let mix = Mix::new(options);
        let pools = self.pools(&mix)?;
        let names: Vec<String> = (0..pools.len()).map(|pool| options.name(pool)).collect();
        let order = |pool| Order::new(found, pool, order, share.lanes, self.counted);
        let orders: Vec<Order<'_>> = pools.into_iter().map(order).collect();
        let repeats = mix.pools() > 1 && mix.on_exhausted == OnExhausted::Repeat;
        let files = Files { heads: &heads, single: &single, control };

        let begun = self.from.as_ref().map_or(0, |state| state.rows);
        let numbers = share.lanes_of_rank(begun);
        let mut lanes = Vec::with_capacity(numbers.len());
        let mut walks = Vec::with_capacity(numbers.len() * orders.len());
        for &lane in &numbers {
            let from = match &self.from {
                None => LaneState {
                    pools: vec![PoolState::default(); orders.len()],
                    ..LaneState::default()
                },
                Some(state) => state.lane(lane)?,
            };
            let mut again = Lane::blocks_again(&from, orders.len());
            for (pool, order) in orders.iter().enumerate() {
                let next = from.pools.get(pool).map_or((Address::default(), 0), |pool| pool.next);
                let again: VecDeque<_> = std::mem::take(&mut again[pool]);
                let epochs = mix.epochs.filter(|_| !repeats);
                walks.push(Mutex::new(Walk::new(order, files, lane, epochs, again, next)));
            }
            let number = (lane, share.lanes);
            lanes.push(Lane::new(self.open.clone(), &job.options, orders.len(), number, from));
        }
        let mut books = Books::default();
        if let Some(state) = &self.from {
            state.counts.put_into(&mut books, share.rank);
        }
        let threads = job.options.work.threads.get();
        let board = Board::new(walks.len(), threads);
        let mut delivery = Delivery {
            run: &self,
            numbers,
            lanes,
            mix: &mix,
            shares: names.iter().map(|name| self.packed_of(name)).collect(),
            names,
            books: &mut books,
            layout,
            next: begun,
            step: self.from.as_ref().map_or(0, |state| state.step),
        };
        let makers =
            Makers { board: &board, walks: &walks, orders: &orders, single: &single, control };
        makers.run(threads, |take| delivery.tables(take, emit))?;
        drop(delivery);
        drop(walks);
        if !self.counted {
            for place in &mut books.ledger.places {
                number_line(found, &mut place.origin, control)?;
            }
            for origin in books.ledger.firsts.values_mut() {
                number_line(found, origin, control)?;
            }
        }
        about.read(job, heads.into_seen());
        if let Some(source) = &options.rank_source {
            let Share { rank, world_size, .. } = share;
            let warning = format!("this was rank {rank} of {world_size}, as {source} say");
            about.facts.warnings.push(warning);
        }
        books.allow(job.options.work.max_lost)?;
        books.close(&job.options).report(&job.options, about, started)
    }

    /// The sources of each pool.
    fn pools(&self, mix: &Mix) -> Result<Vec<Vec<usize>>> {
        let sources = 0..self.found.sources.len();
        if self.options.weights.is_empty() {
            return Ok(vec![sources.collect()]);
        }
        if sources.len() != mix.pools() {
            let reason = format!("name {} sources of {}", mix.pools(), sources.len());
            return Err(Error::option("weights", reason));
        }
        if self.found.sources.iter().any(|source| source.repeat.get() > 1) {
            let reason = "is given beside `weights`, which say how often a source comes; leave one of them out";
            return Err(Error::option("repeat", reason));
        }
        Ok(sources.map(|source| vec![source]).collect())
    }

    /// The packed documents and tokens of a source before.
    fn packed_of(&self, name: &str) -> Count {
        let before = self.from.as_ref();
        before.map_or_else(Count::default, |state| state.counts.share(name, self.share.rank))
    }

    /// The number of the line of a document.
    fn line_of(&self, document: &Document<'_>) -> Result<u64> {
        let origin = document.origin();
        let file = self.found.files.iter().find(|file| file.path == origin.path);
        match file {
            Some(file)
                if !self.counted
                    && self.found.sources[file.source].limit.is_none()
                    && is_line_file(file)? =>
            {
                line_of(&file.path, origin.line, self.control)
            }
            _ => Ok(origin.line),
        }
    }
}

/// The threads that make documents for the lanes.
struct Makers<'m, 'w, 'a> {
    board: &'m Board<Made>,
    /// The walks of each lane, one for each pool.
    walks: &'m [Mutex<Walk<'w, 'a>>],
    orders: &'m [Order<'a>],
    single: &'m SingleBlocks<'a>,
    control: &'m Control,
}

impl Makers<'_, '_, '_> {
    /// Runs `deliver` on this thread, with the documents that `threads` other threads make.
    fn run(
        &self,
        threads: usize,
        deliver: impl FnOnce(&mut dyn FnMut(usize) -> Result<Option<Made>>) -> Result<()>,
    ) -> Result<()> {
        thread::scope(|scope| {
            let serve = || {
                let on_leaving = CloseOnDrop(self.board);
                let mut work = self.single.worker();
                while let Some(claim) = self.board.claim() {
                    self.make(claim, &mut work);
                }
                std::mem::forget(on_leaving);
            };
            // Where the system gives no more threads, the work is done by fewer: the result is the same.
            let workers: Vec<_> = (0..threads)
                .map_while(|_| threads::start_scoped(scope, "fastpack-work", serve).ok())
                .collect();
            let alone = workers.is_empty();
            let delivered = {
                let _closed = CloseOnDrop(self.board);
                let work = RefCell::new(self.single.worker());
                let help = || {
                    let claim = if alone { self.board.try_claim() } else { None };
                    claim.map(|claim| self.make(claim, &mut *work.borrow_mut())).is_some()
                };
                deliver(&mut |feed| {
                    self.control.tick()?;
                    self.board.take(feed, help)
                })
            };
            for worker in workers {
                if let Err(panic) = worker.join() {
                    resume_unwind(panic);
                }
            }
            delivered
        })
    }

    /// Makes the documents of the next block of a feed.
    fn make(
        &self,
        claim: board::Claim,
        work: &mut impl FnMut(
            crate::source::Block,
            Option<Arc<crate::record::Shape>>,
            crate::pipeline::Wanted,
        ) -> Result<crate::pipeline::Outcome>,
    ) {
        let read = {
            let mut walk = self.walks[claim.feed].lock().unwrap_or_else(PoisonError::into_inner);
            self.control.tick().and_then(|()| walk.next()).and_then(|found| match found {
                None => Ok(None),
                // The caller's functions see the blocks of a lane in order.
                Some(found) => {
                    let block = self.single.transformed(found.block)?;
                    Ok(Some(walk::Found { block, ..found }))
                }
            })
        };
        match read {
            Ok(None) => self.board.nothing(claim),
            Err(error) => {
                self.board.put(claim, Err(error));
                self.board.was_read(claim, true);
            }
            Ok(Some(found)) => {
                self.board.was_read(claim, false);
                let order = &self.orders[claim.feed % self.orders.len()];
                self.board.put(claim, Made::of(found, order, work, self.control));
            }
        }
    }
}

/// Makes tables from the rows of a rank's lanes.
struct Delivery<'d, 'a> {
    run: &'d Run<'a>,
    /// The numbers of the lanes of this rank, and the lanes.
    numbers: Vec<usize>,
    lanes: Vec<Lane>,
    mix: &'d Mix,
    /// The names of the pools, and the packed documents and tokens of each.
    names: Vec<String>,
    shares: Vec<Count>,
    books: &'d mut Books,
    layout: Layout,
    /// The first row of the run that no rank has delivered.
    next: u64,
    /// Tables that each rank has delivered.
    step: u64,
}

impl Delivery<'_, '_> {
    fn tables(
        &mut self,
        take: &mut dyn FnMut(usize) -> Result<Option<Made>>,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        while self.run.options.max_steps.is_none_or(|most| self.step < most) {
            let Some(batch) = self.table(take)? else {
                if self.names.len() > 1 {
                    // The last blocks may not be packed to their ends.
                    self.books.end_early();
                }
                return Ok(());
            };
            self.run.control.count_rows(batch.num_rows() as u64);
            emit(batch)?;
        }
        // Documents in open rows were read, and are in no row. The books count only packed ones.
        self.books.end_early();
        Ok(())
    }

    /// The next table; `None` after the last.
    fn table(
        &mut self,
        take: &mut dyn FnMut(usize) -> Result<Option<Made>>,
    ) -> Result<Option<RecordBatch>> {
        let share = self.run.share;
        let packs = &self.run.job.options.rows.packing;
        let mut rows_of: Vec<(usize, Vec<Piece>)> =
            Vec::with_capacity(share.batch.min(share.lanes));
        let first = self.next + share.rank as u64 * share.batch as u64;
        let mut row = first;
        while rows_of.len() < share.batch {
            let number = usize::try_from(row % share.lanes as u64).expect("fewer lanes");
            let at = self.numbers.binary_search(&number).expect("a lane of this rank");
            if let Some(pieces) = self.next_row(at, take)? {
                rows_of.push((at, pieces));
            } else if self.lanes.iter().all(Lane::is_ended) {
                break;
            } else if !share.is_alone() {
                return Err(uneven(number));
            }
            row += 1;
        }
        if rows_of.is_empty() {
            return Ok(None);
        }
        self.next = if share.is_alone() { row } else { self.next + share.step() };
        self.step += 1;
        let mut plan = Plan::new(packs.row_limit()).aligned_to(packs.align_documents_to);
        for (_, pieces) in &rows_of {
            plan.push(pieces);
        }
        let batch = {
            let stocks = rows_of.iter().map(|(at, _)| self.lanes[*at].stock()).collect();
            let gathered = Gathered::apart(stocks, &plan);
            let range = 0..plan.rows();
            let batch = rows(&gathered, range.clone(), &self.layout)?;
            self.books.count_rows(&gathered, range);
            batch
        };
        let mut touched: Vec<usize> = rows_of.into_iter().map(|(at, _)| at).collect();
        touched.sort_unstable();
        touched.dedup();
        for at in touched {
            self.lanes[at].settle();
        }
        let state = self.state().to_json();
        let schema = schema::with_metadata(&batch.schema(), STATE_KEY, state);
        Ok(Some(batch.with_schema(schema)?))
    }

    /// The next row of a lane.
    fn next_row(
        &mut self,
        at: usize,
        take: &mut dyn FnMut(usize) -> Result<Option<Made>>,
    ) -> Result<Option<Vec<Piece>>> {
        let (run, pools) = (self.run, self.names.len());
        let mut bench = Bench {
            options: &run.job.options,
            mix: self.mix,
            shares: &mut self.shares,
            books: self.books,
            take: &mut |pool| take(at * pools + pool),
            line_of: &|document| run.line_of(document),
        };
        self.lanes[at].next_row(&mut bench)
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
            counts: state::Counts::of(self.books, shares),
            states: self.numbers.iter().copied().zip(self.lanes.iter().map(Lane::state)).collect(),
        }
    }
}

/// The error of a lane that ends before others, where ranks must stay in step.
fn uneven(lane: usize) -> Error {
    Error::option(
        "lanes",
        format!(
            "are too many for the input: lane {lane} has no document, and ranks would not stay in step; name \
             more files, files that can be entered in the middle, or fewer `lanes`"
        ),
    )
}
