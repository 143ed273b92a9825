//! [`Rolling`]: rows that are closed and handed over while documents still arrive.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::Range;

use arrow::record_batch::RecordBatch;

use crate::assemble::Batches;
use crate::control::{Control, Phase};
use crate::error::Result;
use crate::pack::{OpenPacks, Piece, Plan};
use crate::pipeline::documents::intake::Outcome;
use crate::pipeline::rows::packing::Packing;
use crate::timing::{Clock, Stage};

/// Runs of documents held apart before those that no row needs are given up.
const SEGMENTS: usize = 32;

/// Bytes of documents in memory before those that no row needs are given up.
const BYTES: u64 = 16 << 20;

/// Documents that may pass before an open row that others overtake is closed, full or not: what bounds the memory of
/// the books.
const HORIZON: u64 = 1 << 20;

/// How many rows a batch holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    /// Rows at most.
    pub(crate) rows: NonZeroUsize,
    /// Tokens at most, unless one row has more.
    pub(crate) tokens: u64,
}

/// Rows in the making, of documents that are given up as soon as no row needs them.
pub(crate) struct Rolling<'a> {
    packing: Packing<'a>,
    open: OpenPacks,
    /// Closed rows that wait for their batch to be full.
    closed: Plan,
    batches: Batches,
    /// How many rows an earlier run has handed over, of those that are left: they are counted only.
    done: usize,
    /// The pieces of the document at hand.
    pieces: Vec<Piece>,
    /// How many runs of documents, and how many bytes, there are when it is looked at again which no row needs. That is
    /// twice what was left the last time, so that all looks together take as long as a few over all documents.
    patience: (usize, u64),
    control: &'a Control,
}

impl<'a> Rolling<'a> {
    /// Rows of what `packing` will be given, closed as `open` says; of these, the first `done` are not handed over.
    pub(crate) fn new(
        packing: Packing<'a>,
        open: OpenPacks,
        batch: BatchSize,
        done: usize,
        control: &'a Control,
    ) -> Self {
        let packs = &packing.options.rows.packing;
        let closed = Plan::new(packs.row_limit()).aligned_to(packs.align_documents_to);
        let batches = Batches::new(packing.layout.padding(), batch.rows, batch.tokens);
        let patience = (SEGMENTS, BYTES);
        Self { packing, open, closed, batches, done, pieces: Vec::new(), patience, control }
    }

    /// Packs the documents of a block and hands over the batches that this fills.
    pub(crate) fn take(
        &mut self,
        outcome: Outcome,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let clock = Clock::start();
        let first = self.closed.first_document();
        let Packing { store, books, options, .. } = &mut self.packing;
        for (number, document) in (store.end()..).zip(outcome.documents.iter()) {
            let name = u32::try_from(number - first)
                .expect("a row has fewer documents than 2^32, and waits for few others");
            books.pieces(document, name, options, &mut self.pieces)?;
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

    /// Closes all rows and hands over what is left.
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

    /// Keeps of the closed rows those that were not handed over.
    fn forget_rows(&mut self) {
        let handed = self.batches.handed();
        if handed == 0 {
            return;
        }
        self.closed = self.closed.split_off(handed, self.closed.first_document());
        self.batches.forget(handed);
        self.done = self.done.saturating_sub(handed);
    }

    /// Gives up the documents that no row needs, and counts the others from the first of them.
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
