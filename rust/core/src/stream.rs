//! The endless form: rows while the input is still being read, in constant memory.
//!
//! The stages are those of [`pipeline`](crate::pipeline); what differs is that rows are closed without having
//! seen all lengths ([`OpenPacks`]), and that documents are given up as soon as no open row needs them.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::time::Instant;

use arrow::record_batch::RecordBatch;

use crate::assemble::Sources;
use crate::config::{Inputs, Strategy};
use crate::control::{Control, Phase};
use crate::error::{Error, Result};
use crate::pack::{OpenPacks, Piece, Plan};
use crate::pipeline::{About, Intake, Job, Outcome, Packing};
use crate::report::Report;
use crate::source::{Blocks, discover};

/// Runs of documents held apart before those that no row needs are given up: each look at them costs a pass over
/// the open rows.
const SEGMENTS: usize = 32;

/// Documents that may pass before an open row is closed, full or not: what bounds the memory of the books.
const HORIZON: u64 = 1 << 20;

/// How a stream packs.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Rows a batch holds; the last may hold fewer.
    pub batch_rows: NonZeroUsize,
    /// Rows kept open for `best_fit`.
    pub open_packs: NonZeroUsize,
}

/// Packs `inputs` on the fly and hands over batches as soon as they are full.
///
/// The rows depend on the inputs and the options alone; with [`Strategy::Sequential`] they are those of
/// [`pack_files`](crate::pipeline::pack_files).
///
/// # Errors
///
/// [`Error::Option`] for a strategy that needs to see all lengths first.
pub fn stream(
    job: &Job,
    inputs: &Inputs,
    options: StreamOptions,
    control: &Control,
    emit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Report> {
    job.validate(inputs)?;
    let started = Instant::now();
    let found = discover(inputs)?;
    let mut about = About::new(job, &found);
    let mut rows = Rows::new(job, about.sources.clone(), options, control, emit)?;
    let blocks = Blocks::new(found);
    let seen = Intake::new(job, control).read(blocks, None, |outcome| rows.take(outcome))?;
    about.read(job, seen);
    rows.finish()?.report(about, started)
}

/// Rows in the making.
struct Rows<'a> {
    packing: Packing<'a>,
    open: OpenPacks,
    /// Closed rows that wait for their batch to be full.
    closed: Plan,
    options: StreamOptions,
    control: &'a Control,
    emit: &'a mut dyn FnMut(RecordBatch) -> Result<()>,
}

impl<'a> Rows<'a> {
    fn new(
        job: &'a Job,
        sources: Sources,
        options: StreamOptions,
        control: &'a Control,
        emit: &'a mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Self> {
        let packs = &job.options.packing;
        let open = match packs.strategy {
            Strategy::Sequential => OpenPacks::sequential(packs),
            Strategy::BestFit => OpenPacks::best_fit(packs, options.open_packs),
            other => {
                let reason = format!(
                    "is `{}`, but a stream packs by `sequential` or `best_fit`",
                    other.name()
                );
                return Err(Error::option("strategy", reason));
            }
        };
        let packing = Packing::new(&job.options, job.layout(sources)?);
        let closed = Plan::new(packs.max_length).aligned_to(packs.align_documents_to);
        Ok(Self { packing, open, closed, options, control, emit })
    }

    /// Packs the documents of a block and hands over the batches that this fills.
    fn take(&mut self, outcome: Outcome) -> Result<()> {
        let first = self.closed.first_document();
        for number in self.packing.take(outcome) {
            let name =
                u32::try_from(number - first).expect("far fewer documents wait for their rows");
            for piece in self.packing.pieces(number, name)? {
                self.open.push(piece, &mut self.closed);
            }
        }
        self.hand_over_full()?;
        if self.packing.store.segments() > SEGMENTS {
            self.give_up();
        }
        Ok(())
    }

    /// Hands over all full batches, and keeps the rows that are left for the next.
    fn hand_over_full(&mut self) -> Result<()> {
        let batch = self.options.batch_rows.get();
        let full = self.closed.rows() / batch;
        for at in 0..full {
            self.control.tick()?;
            self.packing.hand_over(
                &self.closed,
                at * batch..(at + 1) * batch,
                self.control,
                self.emit,
            )?;
        }
        if full > 0 {
            let mut left = self.closed.emptied(self.closed.first_document());
            for row in full * batch..self.closed.rows() {
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
        while self.open.oldest().is_some_and(|oldest| end - (first + u64::from(oldest)) > HORIZON) {
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

    /// Closes all rows and hands over what is left.
    fn finish(mut self) -> Result<Packing<'a>> {
        self.control.enter(Phase::Write);
        self.open.flush(&mut self.closed);
        self.hand_over_full()?;
        if !self.closed.is_empty() {
            self.packing.hand_over(&self.closed, 0..self.closed.rows(), self.control, self.emit)?;
        }
        self.packing.allow_losses()?;
        Ok(self.packing)
    }
}
