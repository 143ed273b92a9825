//! [`Packing`]: from documents to rows, and the books of both.

use std::iter::Peekable;
use std::mem;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Instant;

use arrow::record_batch::RecordBatch;

use super::split::Draw;
use super::{About, Outcome};
use crate::assemble::{Gathered, Layout, batch_ranges, rows};
use crate::config::{MaxLost, Options, Overlong, RowColumn};
use crate::control::{Control, Phase};
use crate::document::{Document, INPUTS};
use crate::error::{Error, Origin, Result};
use crate::ledger::{Ledger, Reason};
use crate::ordered::ordered;
use crate::pack::{Cut, LeftOut, Piece, Pieces, Plan, Planned, cut, lower_bound, plan};
use crate::report::{Histogram, Report, Tally};
use crate::store::Store;
use crate::timing::{Clock, Stage, Work};

/// Rows a batch holds at most: what one Arrow buffer of `pack_files` is made of.
const BATCH_ROWS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Tokens a batch holds at most, unless one row has more: 1 MiB a column, so that what is assembled is still in the
/// processor's caches when it is written, and the memory of one batch serves the next.
const BATCH_TOKENS: u64 = 1 << 18;

/// Threads that assemble rows at most: more would only wait for the one that writes.
const ASSEMBLERS: NonZeroUsize = NonZeroUsize::new(3).expect("not zero");

/// From documents to rows, and the books of both.
pub(crate) struct Packing<'a> {
    pub(super) options: &'a Options,
    pub(super) layout: Layout,
    pub(crate) store: Store,
    /// The pieces of the documents kept so far: all that packing looks at, so documents need not stay in memory.
    pub(super) pieces: Pieces,
    /// What splits are drawn from, if there are to be any: then what becomes of documents is counted a split at a time.
    pub(super) draw: Option<Draw>,
    pub(crate) books: Books,
}

/// What is counted on the way.
#[derive(Clone, Default)]
pub(crate) struct Books {
    pub(super) ledger: Ledger,
    /// Lengths of the documents that have something to learn from.
    lengths: Histogram,
    /// Lengths of the pieces that were packed.
    packed: Histogram,
    /// The rows that no packing can do without, once they are counted.
    lower_bound: u64,
    trained_tokens: u64,
    rows: u64,
    pub(crate) work: Work,
}

impl<'a> Packing<'a> {
    pub(crate) fn new(options: &'a Options, layout: Layout) -> Self {
        Self::with_store(options, layout, Store::default())
    }

    /// Packs the documents that `store` will keep.
    pub(super) fn with_store(options: &'a Options, layout: Layout, store: Store) -> Self {
        Self {
            options,
            layout,
            store,
            pieces: Pieces::default(),
            draw: None,
            books: Books::default(),
        }
    }

    /// Keeps what a block came to; returns the numbers of its documents.
    pub(crate) fn take(&mut self, outcome: Outcome) -> Range<u64> {
        self.books.work += outcome.work;
        self.books.ledger.merge(outcome.ledger);
        self.store.push(outcome.documents, outcome.place)
    }

    /// Keeps what a block came to, to be packed with all else.
    pub(super) fn gather(&mut self, outcome: Outcome) -> Result<()> {
        for (number, document) in (self.store.end()..).zip(outcome.documents.iter()) {
            let name = u32::try_from(number).map_err(|_| {
                Error::option("files", "hold more than 4294967296 documents; pack them in parts")
            })?;
            let fate = fate(document, name, self.options, &mut self.pieces)?;
            match &mut self.draw {
                None => self.books.count(&fate, || document.origin()),
                Some(draw) => draw.add(&document.origin(), fate),
            }
        }
        self.take(outcome);
        Ok(())
    }

    /// The pieces of a document that are packed, which call it `name`; none where it is dropped.
    pub(crate) fn pieces(&mut self, number: u64, name: u32) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let document = self.store.document(number);
        self.books.pieces(document, name, self.options, &mut pieces)?;
        Ok(pieces)
    }

    /// Packs all documents that were gathered and hands over the rows, but for the first `done` of them.
    pub(super) fn pack(
        &mut self,
        done: usize,
        control: &Control,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let pieces = mem::take(&mut self.pieces);
        let mut books = mem::take(&mut self.books);
        let plan = self.plan(pieces, &mut books, control)?;
        books.allow(self.options.max_lost)?;
        self.write(&plan, &mut books, done, control, emit)?;
        self.books = books;
        Ok(())
    }

    /// The rows of some pieces.
    pub(super) fn plan(
        &self,
        pieces: Pieces,
        books: &mut Books,
        control: &Control,
    ) -> Result<Plan> {
        control.enter(Phase::Plan);
        let clock = Clock::start();
        let planned = plan(pieces, &self.options.packing, control)?;
        books.leave_out(&planned, &self.store);
        books.work.stages += clock.stop_after(Stage::Plan);
        Ok(planned.plan)
    }

    /// Hands over the rows of a plan, but for the first `done` of them.
    pub(super) fn write(
        &self,
        plan: &Plan,
        books: &mut Books,
        done: usize,
        control: &Control,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        control.enter(Phase::Write);
        let Self { options, layout, store, .. } = self;
        let mut ranges = batch_ranges(plan, layout.padding(), BATCH_ROWS, BATCH_TOKENS).peekable();
        while let Some(window) = window(&mut ranges, plan, store.window()) {
            let rows_of = window[0].start..window[window.len() - 1].end;
            let clock = Clock::start();
            let gathered = Gathered::of(store, plan, rows_of, options.threads, control)?;
            books.work.stages += clock.stop_after(Stage::Gather);
            let mut ranges = window.into_iter();
            let next = || {
                control.tick()?;
                Ok(ranges.next())
            };
            // Rows are assembled on other threads while those before them are written on this one.
            let worker = || {
                |range: Range<usize>| {
                    let clock = Clock::start();
                    let behind = done.saturating_sub(range.start);
                    // What is done is counted only; a batch that is done in part is cut where it would have been.
                    let batch = if behind < range.len() || range.is_empty() {
                        let batch = rows(&gathered, range.clone(), layout)?;
                        Some(batch.slice(behind, range.len() - behind))
                    } else {
                        None
                    };
                    Ok((range, batch, clock.stop_after(Stage::Assemble)))
                }
            };
            let assemblers = options.threads.min(ASSEMBLERS);
            ordered(assemblers, next, worker, |(range, batch, assembling)| {
                books.work.stages += assembling;
                books.hand_over(&gathered, range, batch, control, emit)
            })?;
        }
        Ok(())
    }

    /// Fails if more is lost than the options allow.
    pub(crate) fn allow_losses(&self) -> Result<()> {
        self.books.allow(self.options.max_lost)
    }

    /// Assembles some rows of `plan` and hands them over.
    pub(crate) fn hand_over(
        &mut self,
        plan: &Plan,
        range: Range<usize>,
        control: &Control,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let clock = Clock::start();
        let gathered = Gathered::kept(&self.store, plan);
        let batch = rows(&gathered, range.clone(), &self.layout)?;
        self.books.work.stages += clock.stop_after(Stage::Assemble);
        self.books.hand_over(&gathered, range, Some(batch), control, emit)
    }

    /// Packs all documents, hands over the rows but for the first `done` of them, and gives the books.
    pub(super) fn finish(
        mut self,
        done: usize,
        control: &Control,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Books> {
        self.pack(done, control, emit)?;
        Ok(self.books.close(self.options))
    }

    /// Closes the books.
    pub(crate) fn report(self, about: About, started: Instant) -> Result<Report> {
        let options = self.options;
        self.books.close(options).report(options, about, started)
    }
}

/// What becomes of a document before packing.
#[derive(Clone, Copy)]
pub(super) struct Fate {
    /// Its tokens.
    length: u32,
    /// The tokens of its pieces that are packed.
    kept: u32,
    /// The tokens that were cut off it.
    truncated: u32,
    /// Why none is packed, if none is.
    dropped: Option<Reason>,
}

/// Appends the pieces of a document that are packed, which call it `name`.
fn fate(
    document: Document<'_>,
    name: u32,
    options: &Options,
    pieces: &mut impl Extend<Piece>,
) -> Result<Fate> {
    let length =
        u32::try_from(document.column(INPUTS).len()).expect("documents are made of fewer tokens");
    let unsaid = if document.is_text() { Overlong::Split } else { Overlong::Drop };
    let dropped = |reason| Fate { length, kept: 0, truncated: 0, dropped: Some(reason) };
    let stretches = match cut(length, document.turn_ends(), &options.packing, unsaid) {
        Cut::Into(stretches) => stretches,
        Cut::Drop => return Ok(dropped(Reason::TooLong)),
        Cut::Refuse => {
            let message = format!(
                "the document has {length} tokens, more than `max_length={}`; `overlong` says what else to do",
                options.packing.max_length
            );
            return Err(Error::Record {
                origin: document.origin(),
                reason: Reason::TooLong,
                message,
            });
        }
    };
    let truncated = length - stretches.tokens();
    let mut kept = 0;
    for (start, length) in stretches {
        if document.labels(start, length) > 0 {
            pieces.extend([Piece { document: name, start, length }]);
            kept += length;
        }
    }
    if kept == 0 {
        return Ok(dropped(Reason::NoTrainedToken));
    }
    Ok(Fate { length, kept, truncated, dropped: None })
}

impl Books {
    /// Adds what was packed apart.
    pub(super) fn merge(&mut self, later: Self) {
        self.ledger.merge(later.ledger);
        self.lengths.merge(&later.lengths);
        self.lower_bound += later.lower_bound;
        self.trained_tokens += later.trained_tokens;
        self.rows += later.rows;
        self.work += later.work;
    }

    /// Adds what became of documents that are counted as read already.
    pub(super) fn merge_read(&mut self, later: Self) {
        let read = self.ledger.read;
        self.merge(later);
        self.ledger.read = read;
    }

    /// Fails if more is lost than `most` allows.
    pub(super) fn allow(&self, most: Option<MaxLost>) -> Result<()> {
        self.ledger.allow(most)
    }

    /// What the books come to.
    pub(super) fn report(
        self,
        options: &Options,
        about: About,
        started: Instant,
    ) -> Result<Report> {
        let Self { ledger, lengths, lower_bound, trained_tokens, rows, work, .. } = self;
        ledger.balance()?;
        let mut warnings = about.warnings;
        let names = options.columns.contains(&RowColumn::SourceFile);
        if ledger.kept.documents == 0 {
            warnings.push("no document was kept".to_owned());
        }
        let tally = Tally {
            files: about.files,
            bytes: about.bytes,
            ledger,
            lengths,
            rows,
            lower_bound,
            trained_tokens,
            tokenizer: about.tokenizer,
            engine: about.engine,
            engine_reason: about.engine_reason,
            template_engine: about.template_engine,
            template_engine_reason: about.template_engine_reason,
            inputs: about.inputs,
            sources: if names { about.sources.names() } else { Vec::new() },
            warnings,
        };
        let seconds = started.elapsed().as_secs_f64();
        Ok(Report::timeless(tally, options).timed(seconds, options.threads.get(), &work))
    }

    /// Appends the pieces of a document that are packed, and counts what is not.
    pub(super) fn pieces(
        &mut self,
        document: Document<'_>,
        name: u32,
        options: &Options,
        pieces: &mut impl Extend<Piece>,
    ) -> Result<()> {
        let fate = fate(document, name, options, pieces)?;
        self.count(&fate, || document.origin());
        Ok(())
    }

    /// Counts what becomes of a document that was read.
    fn count(&mut self, fate: &Fate, origin: impl Fn() -> Origin) {
        let Fate { length, kept, truncated, dropped } = *fate;
        self.lengths.add(length);
        if let Some(reason) = dropped {
            self.ledger.drop_document(reason, u64::from(length), origin);
            return;
        }
        self.ledger.kept.documents += 1;
        let unlabelled = length - truncated - kept;
        if unlabelled > 0 {
            self.ledger.drop_part(Reason::NoTrainedToken, u64::from(unlabelled), &origin);
        }
        if truncated > 0 {
            self.ledger.truncate(u64::from(truncated), &origin);
        }
    }

    /// Reads a document, and counts what becomes of it.
    pub(super) fn read(&mut self, fate: &Fate, origin: impl Fn() -> Origin) {
        self.ledger.read.add(u64::from(fate.length));
        self.count(fate, origin);
    }

    /// Counts the rows that no packing can do without, once all rows are counted.
    pub(super) fn close(mut self, options: &Options) -> Self {
        let packed = mem::take(&mut self.packed);
        self.lower_bound = lower_bound(&packed.pairs(), &options.packing);
        self
    }

    /// Counts the pieces that a plan leaves out, and the documents that are in no row at all for it.
    fn leave_out(&mut self, planned: &Planned, store: &Store) {
        for LeftOut { piece, reason } in &planned.left_out {
            let origin = || store.origin(u64::from(piece.document));
            self.ledger.drop_part(*reason, u64::from(piece.length), origin);
        }
        for (_, reason) in planned.gone() {
            self.ledger.kept.documents -= 1;
            self.ledger.dropped.entry(reason).or_default().documents += 1;
        }
    }

    /// Counts rows and hands them over, unless that was done before.
    fn hand_over(
        &mut self,
        gathered: &Gathered<'_>,
        range: Range<usize>,
        batch: Option<RecordBatch>,
        control: &Control,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        control.count_rows(range.len() as u64);
        self.count_rows(gathered, range);
        let clock = Clock::start();
        batch.map_or(Ok(()), emit)?;
        self.work.stages += clock.stop_after(Stage::Write);
        Ok(())
    }

    fn count_rows(&mut self, gathered: &Gathered<'_>, range: Range<usize>) {
        self.rows += range.len() as u64;
        let plan = gathered.plan();
        let repeated = plan.distinct_rows().clamp(range.start, range.end);
        for piece in plan.pieces(repeated..range.end) {
            self.ledger.repeated.add(u64::from(piece.length));
        }
        for piece in gathered.pieces(range.start..repeated) {
            self.packed.add(plan.room(piece.length));
            self.ledger.kept.tokens += u64::from(piece.length);
            self.trained_tokens += piece.document.labels(piece.start, piece.length);
        }
    }
}

/// The next ranges whose documents are in memory at once: of at most `bytes`, but one at least.
fn window(
    ranges: &mut Peekable<impl Iterator<Item = Range<usize>>>,
    plan: &Plan,
    bytes: u64,
) -> Option<Vec<Range<usize>>> {
    /// Of a token in memory.
    const TOKEN: u64 = 4;
    let size = |range: &Range<usize>| {
        TOKEN * plan.lengths_of(range.clone()).iter().copied().map(u64::from).sum::<u64>()
    };
    let first = ranges.next()?;
    let mut taken = size(&first);
    let mut window = vec![first];
    while let Some(range) = ranges.next_if(|range| taken + size(range) <= bytes) {
        taken += size(&range);
        window.push(range);
    }
    Some(window)
}
