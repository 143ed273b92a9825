//! [`Books`]: the counts of a run, from documents to rows.

use std::mem;
use std::ops::Range;
use std::time::Instant;

use arrow::record_batch::RecordBatch;

use crate::assemble::Gathered;
use crate::config::{MaxLost, Options, Overlong, RowColumn};
use crate::control::Control;
use crate::document::{Document, INPUTS};
use crate::error::{Error, Origin, Result};
use crate::ledger::{Ledger, Reason};
use crate::pack::{Cut, LeftOut, Piece, Planned, cut, lower_bound};
use crate::pipeline::accounts::about::About;
use crate::report::{Histogram, Report, Tally};
use crate::store::Store;
use crate::timing::{Clock, Stage, Work};

/// The counts of a run, job or split.
#[derive(Clone, Default)]
pub(crate) struct Books {
    pub(crate) ledger: Ledger,
    /// Lengths of the documents with trained tokens.
    lengths: Histogram,
    /// Lengths of the pieces that were packed.
    packed: Histogram,
    /// The lower bound of the number of rows, once the rows are counted.
    lower_bound: u64,
    pub(crate) trained_tokens: u64,
    pub(crate) rows: u64,
    pub(crate) work: Work,
}

impl Books {
    /// Whether no row was handed over.
    pub(in crate::pipeline) fn is_without_rows(&self) -> bool {
        self.rows == 0
    }

    /// Adds the books of documents that were packed separately.
    pub(in crate::pipeline) fn merge(&mut self, later: Self) {
        self.ledger.merge(later.ledger);
        self.lengths.merge(&later.lengths);
        self.lower_bound += later.lower_bound;
        self.trained_tokens += later.trained_tokens;
        self.rows += later.rows;
        self.work += later.work;
    }

    /// Adds the books of documents that are already counted as read.
    pub(in crate::pipeline) fn merge_read(&mut self, later: Self) {
        let read = self.ledger.read;
        self.merge(later);
        self.ledger.read = read;
    }

    /// Fails if more is lost than `most` allows.
    pub(crate) fn allow(&self, most: Option<MaxLost>) -> Result<()> {
        self.ledger.allow(most)
    }

    /// Counts only the packed and dropped documents as read, for a run that ends before its input does.
    pub(crate) fn end_early(&mut self) {
        let Ledger { kept, truncated, .. } = self.ledger;
        let dropped = self.ledger.dropped_in_all();
        self.ledger.read.documents = kept.documents + dropped.documents;
        self.ledger.read.tokens = kept.tokens + dropped.tokens + truncated.tokens;
    }

    /// The report of the books.
    pub(crate) fn report(
        self,
        options: &Options,
        about: About,
        started: Instant,
    ) -> Result<Report> {
        let Self { ledger, lengths, lower_bound, trained_tokens, rows, work, .. } = self;
        ledger.balance()?;
        let About { mut facts, sources } = about;
        if options.rows.columns.contains(&RowColumn::SourceFile) {
            facts.sources = sources.names();
        }
        if ledger.kept.documents == 0 {
            facts.warnings.push("no document was kept".to_owned());
        }
        let tally = Tally { ledger, lengths, rows, lower_bound, trained_tokens };
        let seconds = started.elapsed().as_secs_f64();
        Ok(Report::timeless(facts, tally, options).timed(
            seconds,
            options.work.threads.get(),
            &work,
        ))
    }

    /// Appends the packed pieces of a document, and counts the rest.
    pub(crate) fn pieces(
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

    /// Counts the fate of a document that was read.
    pub(in crate::pipeline) fn count(&mut self, fate: &Fate, origin: impl Fn() -> Origin) {
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

    /// Counts a document as read, and its fate.
    pub(in crate::pipeline) fn read(&mut self, fate: &Fate, origin: impl Fn() -> Origin) {
        self.ledger.read.add(u64::from(fate.length));
        self.count(fate, origin);
    }

    /// Computes the lower bound of the number of rows, after all rows are counted.
    pub(crate) fn close(mut self, options: &Options) -> Self {
        let packed = mem::take(&mut self.packed);
        let packing = &options.rows.packing;
        self.lower_bound = if packing.max_length.is_some() {
            lower_bound(&packed.pairs(), packing)
        } else {
            self.rows
        };
        self
    }

    /// Counts the pieces that a plan leaves out, and the documents that are in no row because of that.
    pub(in crate::pipeline) fn leave_out(
        &mut self,
        planned: &Planned,
        store: &Store,
        control: &Control,
    ) -> Result<()> {
        for LeftOut { piece, reason } in &planned.left_out {
            control.tick()?;
            let origin = || store.origin(u64::from(piece.document));
            self.ledger.drop_part(*reason, u64::from(piece.length), origin);
        }
        for (_, reason) in planned.gone(control)? {
            self.lose(reason);
        }
        Ok(())
    }

    /// Counts the pieces of a dropped tail, and the documents that begin in it. Document 0 of the pieces has
    /// the number `first` in `store`.
    pub(crate) fn drop_tail(&mut self, tail: &[Piece], first: u64, store: &Store) {
        for piece in tail {
            let origin = || store.origin(first + u64::from(piece.document));
            self.ledger.drop_part(Reason::Tail, u64::from(piece.length), origin);
            if piece.start == 0 {
                self.lose(Reason::Tail);
            }
        }
    }

    /// Moves a document from kept to dropped.
    fn lose(&mut self, reason: Reason) {
        self.ledger.kept.documents -= 1;
        self.ledger.dropped.entry(reason).or_default().documents += 1;
    }

    /// Counts rows and hands over their batch; without a batch, an earlier run did so.
    pub(crate) fn hand_over(
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

    /// Counts rows of a plan.
    pub(crate) fn count_rows(&mut self, gathered: &Gathered<'_>, range: Range<usize>) {
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

/// The fate of a document before packing.
#[derive(Clone, Copy)]
pub(in crate::pipeline) struct Fate {
    /// Its tokens.
    length: u32,
    /// The tokens of its packed pieces.
    kept: u32,
    /// The tokens that were cut off.
    truncated: u32,
    /// The reason for dropping it, if it is dropped.
    dropped: Option<Reason>,
}

/// Fails if a document has weights and the rows have no column for them.
fn holds_weights(document: Document<'_>, options: &Options) -> Result<()> {
    if options.rows.columns.contains(&RowColumn::LossWeights) {
        return Ok(());
    }
    let Some(weight) = document.fractional_weight() else { return Ok(()) };
    let (column, origin) = (RowColumn::LossWeights.name(), document.origin());
    let reason = format!(
        "have none for the weight {weight} that {origin} gives; add \"{column}\", or leave weights but 0 and 1 out"
    );
    Err(Error::option("columns", reason))
}

/// Appends the packed pieces of a document, under the document number `name`.
pub(in crate::pipeline) fn fate(
    document: Document<'_>,
    name: u32,
    options: &Options,
    pieces: &mut impl Extend<Piece>,
) -> Result<Fate> {
    holds_weights(document, options)?;
    let length =
        u32::try_from(document.column(INPUTS).len()).expect("documents are made of fewer tokens");
    let unsaid = if document.is_text() { Overlong::Split } else { Overlong::Drop };
    let dropped = |reason| Fate { length, kept: 0, truncated: 0, dropped: Some(reason) };
    let stretches = match cut(length, document.turn_ends(), &options.rows.packing, unsaid) {
        Cut::Into(stretches) => stretches,
        Cut::Drop => return Ok(dropped(Reason::TooLong)),
        Cut::Refuse => {
            let message = format!(
                "the document has {length} tokens, more than `max_length={}`; `overlong` says what else to do",
                options.rows.packing.row_limit()
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
