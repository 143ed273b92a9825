//! [`EarlyRows`]: rows that are closed and handed over while documents still arrive.

use std::iter;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::assemble::BatchRanges;
use crate::error::Result;
use crate::pack::{OpenPacks, Piece};
use crate::pipeline::documents::tokenized_blocks::TokenizedBlock;
use crate::pipeline::rows::document_cutter::DocumentCutter;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::row_packer::RowPacker;
use crate::report::timing::{Clock, Stage};
use crate::sink::Sink;
use crate::util::control::{Control, Phase};

/// Batches that are assembled at a time for each thread: enough that starting the threads takes little of the time.
const BATCHES_PER_THREAD: usize = 4;

/// The most batches that are assembled at a time: 64 MiB of a column.
const BATCHES: usize = 64;

/// The time after which the next block hands over the batches that are full, though they are few: records may come slowly, and
/// finished shards go up while the rest is read.
const PATIENCE: Duration = Duration::from_millis(10);

/// Rows that are being packed, from documents that are freed as soon as no row needs them.
pub(crate) struct EarlyRows<'a> {
    packing: Packing<'a>,
    /// Open rows, and closed ones that wait for a full batch.
    rows: RowPacker,
    batches: BatchRanges,
    /// Full batches that wait for others.
    full: Vec<Range<usize>>,
    /// The time at which batches were handed over last.
    handed_over: Instant,
    /// The remaining number of rows that an earlier run has handed over. They are only counted.
    done: usize,
    /// The pieces of the current document.
    pieces: Vec<Piece>,
    control: &'a Control,
}

impl<'a> EarlyRows<'a> {
    /// Rows of the documents given to `packing`, closed as `open` decides. The first `done` of them are not
    /// handed over.
    pub(crate) fn new(
        packing: Packing<'a>,
        open: &OpenPacks,
        done: usize,
        control: &'a Control,
    ) -> Self {
        let rows = RowPacker::new(open, &packing.options.rows.packing, 1);
        let size = packing.layout.batch_size();
        let batches = BatchRanges::new(packing.layout.padding(), size.rows, size.tokens);
        Self {
            packing,
            rows,
            batches,
            full: Vec::new(),
            handed_over: Instant::now(),
            done,
            pieces: Vec::new(),
            control,
        }
    }

    /// Packs the documents of a block and hands over the batches that become full.
    pub(crate) fn take(&mut self, outcome: TokenizedBlock, sink: &mut dyn Sink) -> Result<()> {
        let clock = Clock::start();
        let Packing { store, packed_counts, options, layout, .. } = &mut self.packing;
        let cutter = DocumentCutter { options, objective: &**layout.objective(), copy: 0 };
        for (number, document) in (store.end()..).zip(outcome.documents.iter()) {
            packed_counts.pieces(
                document,
                self.rows.local_number(number),
                cutter,
                &mut self.pieces,
            )?;
            self.rows.push(0, &mut self.pieces);
        }
        packed_counts.work.stages += clock.stop_after(Stage::Plan);
        self.packing.store_documents(outcome);
        while let Some(range) = self.batches.next_full(self.rows.rows(0)) {
            self.full.push(range);
        }
        let threads = self.packing.options.work.threads.get();
        let are_enough = self.full.len() >= (threads * BATCHES_PER_THREAD).min(BATCHES);
        if are_enough || self.handed_over.elapsed() > PATIENCE {
            self.hand_over(sink)?;
        }
        if self.packing.store.is_crowded(1) {
            self.hand_over(sink)?;
            self.free();
        }
        Ok(())
    }

    /// Closes all rows and hands over the rest.
    pub(crate) fn finish(mut self, sink: &mut dyn Sink) -> Result<Packing<'a>> {
        self.control.enter(Phase::Write);
        let tail = self.rows.finish(0, |_| 0);
        let Packing { packed_counts, store, .. } = &mut self.packing;
        packed_counts.drop_tail(&tail, self.rows.first_document(), store);
        while let Some(range) = {
            let rows = self.rows.rows(0);
            self.batches.next_full(rows).or_else(|| self.batches.rest(rows))
        } {
            self.full.push(range);
        }
        self.hand_over(sink)?;
        self.packing.packed_counts.work.stages += sink.settle()?;
        self.packing.allow_losses()?;
        Ok(self.packing)
    }

    /// Hands over the full batches.
    fn hand_over(&mut self, sink: &mut dyn Sink) -> Result<()> {
        let full = std::mem::take(&mut self.full);
        if full.is_empty() {
            return Ok(());
        }
        self.packing.hand_over(self.rows.rows(0), full, self.done, self.control, sink)?;
        self.handed_over = Instant::now();
        Ok(())
    }

    /// Drops the rows that were handed over, and frees the documents that no other row needs.
    fn free(&mut self) {
        let handed = self.batches.handed();
        self.rows.deliver(0, handed);
        self.rows.free(&mut self.packing.store, iter::empty());
        self.batches.forget(handed);
        self.done = self.done.saturating_sub(handed);
    }
}
