//! [`Packing`]: packs documents into rows, and counts them.

use std::collections::HashSet;
use std::iter::Peekable;
use std::mem;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::record_batch::RecordBatch;

use crate::assemble::{BatchSize, DocumentsOfRows, Layout, assembled, batch_ranges};
use crate::config::{BYTES_OF_VALUE, OnRemainder, Options, Validation};
use crate::document::store::DocumentStore;
use crate::error::{Error, Result};
use crate::pack::{Piece, Pieces, Plan, plan};
use crate::pipeline::documents::tokenized_blocks::TokenizedBlock;
use crate::pipeline::rows::document_cutter::DocumentCutter;
use crate::pipeline::rows::leftover_documents::SharedDocument;
use crate::pipeline::rows::source_share_draw::{DrawnDocuments, ShareDraw};
use crate::pipeline::rows::validation_draw::ValidationDraw;
use crate::pipeline::statistics::packed_counts::PackedCounts;
use crate::report::ShareReport;
use crate::report::ledger::Reason;
use crate::report::timing::{Clock, Stage};
use crate::sink::Sink;
use crate::util::control::{Control, Phase};
use crate::util::thread_pool::do_behind;
use crate::util::threads_in_order::ordered_within;

/// Packs documents into rows, and counts them.
pub(crate) struct Packing<'a> {
    pub(in crate::pipeline) options: &'a Options,
    pub(in crate::pipeline) layout: Layout,
    pub(crate) store: DocumentStore,
    /// The pieces of the documents so far, for each copy of them. Packing needs nothing else, so documents need not
    /// stay in memory.
    pub(in crate::pipeline) pieces: Vec<Pieces>,
    /// The documents to select splits from, if there are splits. Then the results of cutting are counted for each split.
    pub(in crate::pipeline) draw: Option<ValidationDraw>,
    /// The documents to draw from by the shares of their sources. Then the results of cutting are counted once all are known.
    pub(in crate::pipeline) shares: Option<ShareDraw>,
    /// The size of the validation split, if there are splits.
    pub(in crate::pipeline) validation: Option<Validation>,
    /// True if this packs a group of a job: rows that ranks cannot share equally are left for the job.
    pub(in crate::pipeline) is_group: bool,
    /// Documents with other pieces in rows already.
    pub(in crate::pipeline) in_other_rows: HashSet<u32>,
    pub(crate) packed_counts: PackedCounts,
}

impl<'a> Packing<'a> {
    pub(crate) fn new(options: &'a Options, layout: Layout) -> Self {
        Self::with_store(options, layout, DocumentStore::default())
    }

    /// Packs documents that are kept in `store`.
    pub(in crate::pipeline) fn with_store(
        options: &'a Options,
        layout: Layout,
        store: DocumentStore,
    ) -> Self {
        Self {
            options,
            layout,
            store,
            pieces: vec![Pieces::default(); options.rows.copies.get() as usize],
            draw: None,
            shares: None,
            validation: None,
            is_group: false,
            in_other_rows: HashSet::new(),
            packed_counts: PackedCounts::default(),
        }
    }

    /// Stores the documents of a block. Returns their numbers.
    pub(crate) fn store_documents(&mut self, outcome: TokenizedBlock) -> Range<u64> {
        self.packed_counts.work += outcome.work;
        self.packed_counts.ledger.merge(outcome.ledger);
        self.store.push(outcome.documents, outcome.place)
    }

    /// Cuts the documents of a block into pieces, counts them and stores them, to be packed with all others.
    pub(in crate::pipeline) fn cut_and_store(&mut self, outcome: TokenizedBlock) -> Result<()> {
        let clock = Clock::start();
        let objective = Arc::clone(self.layout.objective());
        for (number, document) in (self.store.end()..).zip(outcome.documents.iter()) {
            let name = u32::try_from(number).map_err(|_| {
                Error::option("files", "hold more than 4294967296 documents; pack them in parts")
            })?;
            for (copy, pieces) in (0..).zip(&mut self.pieces) {
                let cutter = DocumentCutter { options: self.options, objective: &*objective, copy };
                let cut_result = cutter.cut(document, name, pieces)?;
                if let Some(shares) = &mut self.shares {
                    shares.add(&outcome.documents, document.content(), cut_result);
                }
                match &mut self.draw {
                    Some(draw) => draw.add(document.content(), cut_result),
                    None if self.shares.is_some() => {}
                    None if copy == 0 => {
                        self.packed_counts.count(&cut_result, || document.origin());
                    }
                    None => self.packed_counts.read(&cut_result, || document.origin()),
                }
            }
        }
        objective.found_classes().map_or(Ok(()), |classes| classes.see(&outcome.documents))?;
        self.packed_counts.work.stages += clock.stop_after(Stage::Plan);
        self.store_documents(outcome);
        Ok(())
    }

    /// Draws the gathered documents by the shares of their sources, if they have some.
    pub(in crate::pipeline) fn draw_shares(
        &mut self,
        control: &Control,
    ) -> Result<Vec<(String, ShareReport)>> {
        let Some(shares) = self.shares.take() else { return Ok(Vec::new()) };
        let of: Vec<usize> = shares.sources_of_documents().collect();
        let drawn = shares.draw(control)?;
        for pieces in &mut self.pieces {
            *pieces = drawn.of(pieces, |document| of[document as usize], control)?;
        }
        let DrawnDocuments { times, cut_results, reports } = drawn;
        if let Some(draw) = &mut self.draw {
            draw.cut_results = cut_results;
            return Ok(reports);
        }
        for (number, (cut_result, times)) in (0..).zip(cut_results.iter().zip(times)) {
            let origin = || self.store.origin(number);
            self.packed_counts.count(cut_result, origin);
            // A document that is taken again is read again.
            (1..times).for_each(|_| self.packed_counts.read(cut_result, origin));
        }
        Ok(reports)
    }

    /// Packs all gathered documents and hands over the rows, except the first `done` of them. Returns the documents
    /// that are to share rows with those of other groups.
    pub(in crate::pipeline) fn pack(
        &mut self,
        done: usize,
        control: &Control,
        sink: &mut dyn Sink,
    ) -> Result<Vec<SharedDocument>> {
        let copies = mem::take(&mut self.pieces).into_iter();
        let mut packed_counts = mem::take(&mut self.packed_counts);
        let plans = copies.map(|pieces| self.plan(pieces, &mut packed_counts, control));
        let plans = plans.collect::<Result<Vec<(Plan, Vec<Piece>)>>>()?;
        packed_counts.check_max_lost(self.options.work.max_lost)?;
        let mut before = 0;
        let mut shared = Vec::new();
        for (plan, separate) in plans {
            self.write(&plan, &mut packed_counts, done.saturating_sub(before), control, sink)?;
            before += plan.rows();
            shared.extend(self.shared(&plan, &separate, control)?);
        }
        self.packed_counts = packed_counts;
        Ok(shared)
    }

    /// The documents of the pieces `separate`, which are in no row of `plan`.
    pub(in crate::pipeline) fn shared(
        &self,
        plan: &Plan,
        separate: &[Piece],
        control: &Control,
    ) -> Result<Vec<SharedDocument>> {
        if separate.is_empty() {
            return Ok(Vec::new());
        }
        let mut alone = Plan::new(plan.max_length());
        for piece in separate {
            alone.push(&[*piece]);
        }
        let threads = self.options.work.threads;
        let (rows, whole) = (0..alone.rows(), self.layout.needs_whole_documents());
        let gathered = DocumentsOfRows::of(&self.store, &alone, rows, whole, threads, control)?;
        let ranks = self.layout.sources().ranks();
        Ok(SharedDocument::of(separate, &gathered, plan, &ranks))
    }

    /// The plan of some pieces, and those that are to share rows with pieces of other groups.
    pub(in crate::pipeline) fn plan(
        &self,
        pieces: Pieces,
        packed_counts: &mut PackedCounts,
        control: &Control,
    ) -> Result<(Plan, Vec<Piece>)> {
        control.enter(Phase::Plan);
        let clock = Clock::start();
        let mut packing = self.options.rows.packing.clone();
        if self.is_group {
            packing.on_remainder = OnRemainder::Drop;
        }
        let mut planned = plan(pieces, &packing, control)?;
        let separate = if self.is_group { planned.take_out(Reason::Remainder) } else { Vec::new() };
        packed_counts.leave_out(&planned, &separate, &self.store, &self.in_other_rows, control)?;
        packed_counts.work.stages += clock.stop_after(Stage::Plan);
        Ok((planned.plan, separate))
    }

    /// Hands over the rows of a plan, except the first `done` of them.
    pub(in crate::pipeline) fn write(
        &self,
        plan: &Plan,
        packed_counts: &mut PackedCounts,
        done: usize,
        control: &Control,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        control.enter(Phase::Write);
        let Self { options, layout, store, .. } = self;
        let BatchSize { rows, tokens } = layout.batch_size();
        let mut ranges = batch_ranges(plan, layout.padding(), rows, tokens).peekable();
        let bytes = |rows: &Range<usize>| {
            if layout.embeds_pictures() && store.is_spilled() {
                let documents = plan.pieces(rows.clone()).map(|it| u64::from(it.document));
                documents.map(|it| store.logged_bytes(plan.first_document() + it)).sum()
            } else {
                let lengths = plan.lengths_of(rows.clone()).iter();
                BYTES_OF_VALUE * lengths.copied().map(u64::from).sum::<u64>()
            }
        };
        while let Some(window) = window(&mut ranges, bytes, store.window()) {
            let rows_of = window[0].start..window[window.len() - 1].end;
            let clock = Clock::start();
            let whole = layout.needs_whole_documents();
            let gathered =
                DocumentsOfRows::of(store, plan, rows_of, whole, options.work.threads, control)?;
            packed_counts.work.stages += clock.stop_after(Stage::Gather);
            let spare = store.spare();
            RowBatches { options, layout, gathered: &gathered, spare, control }.hand_over(
                window,
                done,
                packed_counts,
                sink,
            )?;
        }
        packed_counts.work.stages += sink.settle()?;
        Ok(())
    }

    /// Fails if more is lost than the options allow.
    pub(crate) fn allow_losses(&self) -> Result<()> {
        self.packed_counts.check_max_lost(self.options.work.max_lost)
    }

    /// Assembles rows of `plan`, whose documents are in memory, and hands them over, except those before row `done`.
    pub(in crate::pipeline) fn hand_over(
        &mut self,
        plan: &Plan,
        ranges: Vec<Range<usize>>,
        done: usize,
        control: &Control,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let Self { options, layout, store, packed_counts, .. } = self;
        let gathered = DocumentsOfRows::kept(store, plan);
        let spare = store.spare();
        RowBatches { options, layout, gathered: &gathered, spare, control }.hand_over(
            ranges,
            done,
            packed_counts,
            sink,
        )
    }

    /// Packs all documents, hands over the rows except the first `done` of them, and returns the counts.
    pub(in crate::pipeline) fn finish(
        mut self,
        done: usize,
        control: &Control,
        sink: &mut dyn Sink,
    ) -> Result<PackedCounts> {
        self.pack(done, control, sink)?;
        Ok(self.packed_counts.close(self.options))
    }
}

/// Rows of a plan, to be assembled on all threads.
struct RowBatches<'a> {
    options: &'a Options,
    layout: &'a Layout,
    gathered: &'a DocumentsOfRows<'a>,
    /// Bytes of memory that documents leave free.
    spare: u64,
    control: &'a Control,
}

impl RowBatches<'_> {
    /// Assembles ranges of rows on all threads, counts them, and hands them over in their order, except the first `done` rows of
    /// the plan.
    fn hand_over(
        self,
        ranges: Vec<Range<usize>>,
        done: usize,
        packed_counts: &mut PackedCounts,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let Self { layout, gathered, control, .. } = self;
        let threads = self.options.work.threads;
        let largest = ranges.iter().map(|range| self.bytes(range)).max().unwrap_or(0);
        let RowsInHand { most, encoded } = RowsInHand::of(self.spare, threads, largest);
        let tasks = sink.use_threads(threads, encoded);
        let most = most.min(ranges.len());
        let counted = Mutex::new(mem::take(packed_counts));
        let mut ranges = ranges.into_iter();
        let next = || {
            control.tick()?;
            Ok(ranges.next())
        };
        let worker = || {
            let mut counts = ThreadCounts { packed_counts: PackedCounts::default(), all: &counted };
            let tasks = tasks.as_ref();
            move |range: Range<usize>| {
                let assemble = || {
                    let clock = Clock::start();
                    let (batch, labels) = batch(gathered, range.clone(), layout, done)?;
                    counts.packed_counts.count_rows(gathered, range.clone(), labels);
                    counts.packed_counts.work.stages += clock.stop_after(Stage::Assemble);
                    Ok((range.len() as u64, batch))
                };
                // Rows that are there are written first: a file has one writer at a time, which would wait for a core.
                do_behind(tasks, assemble)
            }
        };
        let consume = |(rows, batch): (u64, Option<RecordBatch>)| {
            control.count_rows(rows);
            batch.map_or(Ok(()), |batch| sink.write(&batch))
        };
        let handed = ordered_within(threads, most, next, worker, consume);
        *packed_counts = counted.into_inner().unwrap_or_else(PoisonError::into_inner);
        handed
    }

    /// The bytes of some rows, padding and embedded pictures included.
    fn bytes(&self, rows: &Range<usize>) -> u64 {
        let Self { gathered, layout, .. } = self;
        let plan = gathered.plan();
        let padded_lengths =
            rows.clone().map(|row| layout.padding().tokens(plan.padded_length_of_row(row)));
        let values = padded_lengths.sum::<u64>() * layout.columns().len().max(1) as u64;
        let pictures = if layout.embeds_pictures() {
            gathered
                .pieces(rows.clone())
                .map(|document_slice| document_slice.embedded_bytes())
                .sum()
        } else {
            0
        };
        BYTES_OF_VALUE * values + pictures
    }
}

/// Limits of the rows that are in memory before they are written.
pub(in crate::pipeline) struct RowsInHand {
    /// Batches that are assembled and not handed over.
    pub(in crate::pipeline) most: usize,
    /// Bytes of rows that were handed over and are not written.
    pub(in crate::pipeline) encoded: u64,
}

impl RowsInHand {
    /// The limits for batches of at most `largest` bytes and documents that leave `spare` bytes of memory free.
    pub(in crate::pipeline) fn of(spare: u64, threads: NonZeroUsize, largest: u64) -> Self {
        /// Bytes: a few batches for each of two threads, and row groups that are being encoded.
        const LEAST: u64 = 96 << 20;
        /// Bytes for each thread: a few batches, or a row group.
        const OF_THREAD: u64 = 24 << 20;
        let half = spare.min(OF_THREAD * threads.get() as u64).max(LEAST) / 2;
        let most = usize::try_from(half / largest.max(1)).unwrap_or(usize::MAX);
        Self { most, encoded: half }
    }
}

/// The counts of one thread, which are added to those of all when it ends.
struct ThreadCounts<'a> {
    packed_counts: PackedCounts,
    all: &'a Mutex<PackedCounts>,
}

impl Drop for ThreadCounts<'_> {
    fn drop(&mut self) {
        let packed_counts = mem::take(&mut self.packed_counts);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).merge(packed_counts);
    }
}

/// A batch of rows, without the first `done` rows of the plan, and the number of all its labels; no batch if no row
/// remains.
///
/// Rows that are done are only counted. A batch that is done in part is cut where it would have been.
fn batch(
    gathered: &DocumentsOfRows<'_>,
    range: Range<usize>,
    layout: &Layout,
    done: usize,
) -> Result<(Option<RecordBatch>, Option<u64>)> {
    let behind = done.saturating_sub(range.start);
    let is_done = behind >= range.len() && !range.is_empty();
    if is_done && layout.objective().columns().is_empty() {
        return Ok((None, None));
    }
    let rows = range.len();
    let built = assembled(gathered, range, layout)?;
    let batch = (!is_done).then(|| built.batch.slice(behind, rows - behind));
    Ok((batch, built.labels.map(|labels| labels.iter().sum())))
}

/// The next ranges whose documents are in memory at the same time: of at most `most` bytes, but at least one
/// range.
fn window(
    ranges: &mut Peekable<impl Iterator<Item = Range<usize>>>,
    bytes: impl Fn(&Range<usize>) -> u64,
    most: u64,
) -> Option<Vec<Range<usize>>> {
    let first = ranges.next()?;
    let mut taken = bytes(&first);
    let mut window = vec![first];
    while let Some(range) = ranges.next_if(|range| taken + bytes(range) <= most) {
        taken += bytes(&range);
        window.push(range);
    }
    Some(window)
}
