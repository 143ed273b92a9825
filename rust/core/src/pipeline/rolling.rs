//! [`Rolling`]: rows that are closed and handed over while documents still arrive.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use arrow::record_batch::RecordBatch;

use super::{Outcome, Packing};
use crate::assemble::full_batch;
use crate::control::{Control, Phase};
use crate::error::Result;
use crate::pack::{OpenPacks, Piece, Plan};
use crate::timing::{Clock, Stage};

/// Runs of documents held apart before those that no row needs are given up: each look at them costs a pass over
/// the open rows.
const SEGMENTS: usize = 32;

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
    /// The rows that were handed over.
    handed: usize,
    /// How many rows an earlier run has handed over, which are counted only.
    done: usize,
    batch: BatchSize,
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
        let packs = &packing.options.packing;
        let closed = Plan::new(packs.max_length).aligned_to(packs.align_documents_to);
        Self { packing, open, closed, handed: 0, done, batch, control }
    }

    /// Packs the documents of a block and hands over the batches that this fills.
    pub(crate) fn take(
        &mut self,
        outcome: Outcome,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let first = self.closed.first_document();
        let numbers = self.packing.take(outcome);
        let clock = Clock::start();
        for number in numbers {
            let name =
                u32::try_from(number - first).expect("far fewer documents wait for their rows");
            for piece in self.packing.pieces(number, name)? {
                self.open.push(piece, &mut self.closed);
            }
        }
        self.packing.books.work.stages += clock.stop_after(Stage::Plan);
        self.hand_over(Batches::Full, emit)?;
        if self.packing.store.segments() > SEGMENTS {
            self.give_up();
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
        self.hand_over(Batches::All, emit)?;
        self.packing.allow_losses()?;
        Ok(self.packing)
    }

    /// Hands over the batches of the closed rows, and keeps the rows that are left for the next.
    fn hand_over(
        &mut self,
        which: Batches,
        emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let (padding, rows) = (self.packing.layout.padding(), self.closed.rows());
        let size = (self.batch.rows, self.batch.tokens);
        let mut start = 0;
        while start < rows {
            let end = match (full_batch(&self.closed, padding, start, size), which) {
                (Some(end), _) => end,
                (None, Batches::All) => rows,
                (None, Batches::Full) => break,
            };
            self.control.tick()?;
            let done = self.done.saturating_sub(self.handed);
            self.packing.hand_over((&self.closed, done), start..end, self.control, emit)?;
            start = end;
        }
        if start > 0 {
            self.handed += start;
            let mut left = self.closed.emptied(self.closed.first_document());
            for row in start..rows {
                left.push(&self.closed.row(row).collect::<Vec<_>>());
            }
            self.closed = left;
        }
        Ok(())
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
        let needed: HashSet<u64> = waiting
            .chain(self.open.pieces().copied())
            .map(|piece| first + u64::from(piece.document))
            .collect();
        self.packing.store.retain(|number| needed.contains(&number));

        let oldest = needed.into_iter().min().unwrap_or(end);
        let step = u32::try_from(oldest - first).expect("far fewer documents wait for their rows");
        let mut rebased = self.closed.emptied(oldest);
        for row in 0..self.closed.rows() {
            let pieces = self
                .closed
                .row(row)
                .map(|piece| Piece { document: piece.document - step, ..piece });
            rebased.push(&pieces.collect::<Vec<_>>());
        }
        self.closed = rebased;
        self.open.rebase(step);
    }
}

/// Which batches are handed over.
#[derive(Clone, Copy)]
enum Batches {
    /// Those that are full.
    Full,
    /// What is left too.
    All,
}
