//! [`Rolling`]: rows that are closed and handed over while documents still arrive.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::Range;

use arrow::record_batch::RecordBatch;

use crate::assemble::BatchRanges;
use crate::control::{Control, Phase};
use crate::error::Result;
use crate::pack::{OpenPacks, Piece, Plan};
use crate::pipeline::accounts::fate::Cutter;
use crate::pipeline::documents::intake::Outcome;
use crate::pipeline::rows::packing::Packing;
use crate::timing::{Clock, Stage};

/// Runs of documents after which unused documents are freed.
const SEGMENTS: usize = 32;

/// Bytes of documents after which unused ones are freed.
const BYTES: u64 = 16 << 20;

/// Documents after which an open row that others overtake is closed, full or not. This bounds the memory of
/// the books.
const HORIZON: u64 = 1 << 20;

/// The size of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    /// The most rows.
    pub(crate) rows: NonZeroUsize,
    /// The most tokens, unless one row has more.
    pub(crate) tokens: u64,
}

/// Rows that are being packed, from documents that are freed as soon as no row needs them.
pub(crate) struct Rolling<'a> {
    packing: Packing<'a>,
    open: OpenPacks,
    /// Closed rows that wait for a full batch.
    closed: Plan,
    batches: BatchRanges,
    /// The remaining number of rows that an earlier run has handed over. They are only counted.
    done: usize,
    /// The pieces of the current document.
    pieces: Vec<Piece>,
    /// The numbers of runs and bytes at which unused documents are searched again: twice the numbers left by
    /// the last search, so that all searches together take as long as a few over all documents.
    patience: (usize, u64),
    control: &'a Control,
}

impl<'a> Rolling<'a> {
    /// Rows of the documents given to `packing`, closed as `open` decides. The first `done` of them are not
    /// handed over.
    pub(crate) fn new(
        packing: Packing<'a>,
        open: OpenPacks,
        batch: BatchSize,
        done: usize,
        control: &'a Control,
    ) -> Self {
        let packs = &packing.options.rows.packing;
        let closed = Plan::new(packs.row_limit()).aligned_to(packs.align_documents_to);
        let batches = BatchRanges::new(packing.layout.padding(), batch.rows, batch.tokens);
        let patience = (SEGMENTS, BYTES);
        Self { packing, open, closed, batches, done, pieces: Vec::new(), patience, control }
    }

    /// Packs the documents of a block and hands over the batches that become full.
    pub(crate) fn take(
        &mut self,
        outcome: Outcome,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let clock = Clock::start();
        let first = self.closed.first_document();
        let Packing { store, books, options, layout, .. } = &mut self.packing;
        let cutter = Cutter { options, objective: &**layout.objective(), epoch: 0 };
        for (number, document) in (store.end()..).zip(outcome.documents.iter()) {
            let name = u32::try_from(number - first)
                .expect("a row has fewer documents than 2^32, and waits for few others");
            books.pieces(document, name, cutter, &mut self.pieces)?;
            for piece in self.pieces.drain(..) {
                self.open.push(piece, &mut self.closed);
            }
        }
        books.work.stages += clock.stop_after(Stage::Plan);
        self.packing.take(outcome);
        while let Some(range) = self.batches.next_full(&self.closed) {
            self.hand_over(range, emit)?;
        }
        self.forget_rows();
        let store = &self.packing.store;
        if store.segments() > self.patience.0 || store.resident() > self.patience.1 {
            self.give_up();
            let store = &self.packing.store;
            self.patience = (SEGMENTS.max(2 * store.segments()), BYTES.max(2 * store.resident()));
        }
        Ok(())
    }

    /// Closes all rows and hands over the rest.
    pub(crate) fn finish(
        mut self,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Packing<'a>> {
        self.control.enter(Phase::Write);
        let tail = self.open.flush(&mut self.closed);
        let Packing { books, store, .. } = &mut self.packing;
        books.drop_tail(&tail, self.closed.first_document(), store);
        while let Some(range) =
            self.batches.next_full(&self.closed).or_else(|| self.batches.rest(&self.closed))
        {
            self.hand_over(range, emit)?;
        }
        self.packing.allow_losses()?;
        Ok(self.packing)
    }

    /// Hands over a batch of closed rows.
    fn hand_over(
        &mut self,
        range: Range<usize>,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        self.control.tick()?;
        self.packing.hand_over(&self.closed, (range, self.done), self.control, emit)
    }

    /// Drops the closed rows that were handed over.
    fn forget_rows(&mut self) {
        let handed = self.batches.handed();
        if handed == 0 {
            return;
        }
        self.closed = self.closed.split_off(handed, self.closed.first_document());
        self.batches.forget(handed);
        self.done = self.done.saturating_sub(handed);
    }

    /// Frees the documents that no row needs, and renumbers the others from the first of them.
    fn give_up(&mut self) {
        let first = self.closed.first_document();
        let end = self.packing.store.end();
        let waits_long = |oldest: u32| end - (first + u64::from(oldest)) > HORIZON;
        while self.open.overtakes() && self.open.oldest().is_some_and(waits_long) {
            self.open.close_oldest(&mut self.closed);
        }
        let waiting = self.closed.pieces(0..self.closed.rows());
        let waiting = waiting.chain(self.open.pieces().copied());
        let needed = waiting.map(|piece| first + u64::from(piece.document));
        let oldest = if self.open.overtakes() {
            let needed: HashSet<u64> = needed.collect();
            self.packing.store.retain(|number| needed.contains(&number));
            needed.into_iter().min().unwrap_or(end)
        } else {
            let oldest = needed.min().unwrap_or(end);
            self.packing.store.retain(|number| number >= oldest);
            oldest
        };
        let step = u32::try_from(oldest - first).expect("far fewer documents wait for their rows");
        self.closed = self.closed.split_off(0, oldest);
        self.open.rebase(step);
    }
}
