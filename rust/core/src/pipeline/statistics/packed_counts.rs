//! [`PackedCounts`]: the counts of a run, from documents to rows.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::assemble::DocumentsOfRows;
use crate::config::{MaxLost, Options, RowColumn};
use crate::document::Document;
use crate::document::store::DocumentStore;
use crate::error::{Origin, Result};
use crate::pack::{Piece, PlannedRows, UnpackedPiece, lower_bound, lower_bound_of_pictures};
use crate::pipeline::rows::document_cutter::{CutResult, DocumentCutter};
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::ledger::{Ledger, PictureCount, Reason};
use crate::report::timing::StageWork;
use crate::report::{Histogram, Report, ReportCounts};
use crate::util::control::Control;

/// The counts of a run, job or split.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PackedCounts {
    pub(crate) ledger: Ledger,
    /// Lengths of the documents with trained tokens.
    lengths: Histogram,
    /// Lengths of the pieces that were packed.
    packed: Histogram,
    /// The tokens of the rows, without padding.
    pub(crate) filled: u64,
    /// The pictures of the rows, if rows have limits of pictures.
    #[serde(default, skip_serializing_if = "PictureCount::is_empty")]
    pub(crate) packed_pictures: PictureCount,
    /// The lower bound of the number of rows, once the rows are counted.
    lower_bound: u64,
    pub(crate) trained_tokens: u64,
    pub(crate) rows: u64,
    pub(crate) work: StageWork,
}

impl PackedCounts {
    /// True if no row was handed over.
    pub(in crate::pipeline) fn is_without_rows(&self) -> bool {
        self.rows == 0
    }

    /// Adds the counts of documents that were packed separately.
    pub(crate) fn merge(&mut self, later: Self) {
        self.ledger.merge(later.ledger);
        self.lengths.merge(&later.lengths);
        self.packed.merge(&later.packed);
        self.lower_bound += later.lower_bound;
        self.filled += later.filled;
        self.packed_pictures.merge(later.packed_pictures);
        self.trained_tokens += later.trained_tokens;
        self.rows += later.rows;
        self.work += later.work;
    }

    /// Adds the counts of documents that are already counted as read.
    pub(in crate::pipeline) fn merge_read(&mut self, later: Self) {
        let read = self.ledger.read;
        self.merge(later);
        self.ledger.read = read;
    }

    /// Tells at most `most` lengths of documents apart, and as many of packed pieces.
    pub(crate) fn shorten_lengths(&mut self, most: usize) {
        self.lengths.shorten(most);
        self.packed.shorten(most);
    }

    /// The lengths of the documents, and those of the packed pieces.
    pub(crate) fn lengths(&self) -> [&Histogram; 2] {
        [&self.lengths, &self.packed]
    }

    /// Adds lengths of documents, and of packed pieces.
    pub(crate) fn add_lengths(&mut self, [lengths, packed]: &[Histogram; 2]) {
        self.lengths.merge(lengths);
        self.packed.merge(packed);
    }

    /// Fails if more is lost than `most` allows.
    pub(crate) fn check_max_lost(&self, most: Option<MaxLost>) -> Result<()> {
        self.ledger.check_max_lost(most)
    }

    /// Counts only the packed and dropped documents as read, for a run that ends before its input does.
    pub(crate) fn end_early(&mut self) {
        let Ledger { kept, truncated, .. } = self.ledger;
        let dropped = self.ledger.dropped_in_all();
        self.ledger.read.documents = kept.documents + dropped.documents;
        self.ledger.read.tokens = kept.tokens + dropped.tokens + truncated.tokens;
    }

    /// The report of the counts.
    pub(crate) fn report(
        self,
        options: &Options,
        about: InputFacts,
        started: Instant,
    ) -> Result<Report> {
        self.ledger.balance()?;
        let work = self.work;
        let seconds = started.elapsed().as_secs_f64();
        Ok(self.timeless(options, about).timed(seconds, options.work.threads.get(), &work))
    }

    /// The report of the counts without times, balanced or not.
    pub(in crate::pipeline) fn timeless(self, options: &Options, about: InputFacts) -> Report {
        let Self {
            ledger,
            lengths,
            lower_bound,
            filled,
            packed_pictures,
            trained_tokens,
            rows,
            ..
        } = self;
        let InputFacts { mut facts, sources } = about;
        if options.rows.columns.contains(&RowColumn::SourceFile) {
            facts.sources = sources.names();
        }
        if ledger.kept.documents == 0 {
            facts.warnings.push("no document was kept".to_owned());
        }
        let tally = ReportCounts {
            ledger,
            lengths,
            rows,
            lower_bound,
            filled,
            packed_pictures,
            trained_tokens,
        };
        Report::timeless(facts, tally, options)
    }

    /// Appends the packed pieces of a document, and counts the rest.
    pub(crate) fn pieces(
        &mut self,
        document: Document<'_>,
        name: u32,
        cutter: DocumentCutter<'_>,
        pieces: &mut impl Extend<Piece>,
    ) -> Result<()> {
        let cut_result = cutter.cut(document, name, pieces)?;
        self.count(&cut_result, || document.origin());
        Ok(())
    }

    /// Counts the result of cutting a document that was read.
    pub(in crate::pipeline) fn count(
        &mut self,
        cut_result: &CutResult,
        origin: impl Fn() -> Origin,
    ) {
        let CutResult { length, kept, truncated, dropped } = *cut_result;
        self.lengths.add(length);
        if let Some(reason) = dropped {
            self.ledger.drop_document(reason, u64::from(length), origin());
            return;
        }
        self.ledger.kept.documents += 1;
        let unlabelled = length - truncated - kept;
        if unlabelled > 0 {
            self.ledger.drop_part(Reason::NoTrainedToken, u64::from(unlabelled));
            self.ledger.note_first(Reason::NoTrainedToken, origin());
        }
        if truncated > 0 {
            self.ledger.truncate(u64::from(truncated), origin());
        }
    }

    /// Counts a document as read, and the result of cutting it.
    pub(in crate::pipeline) fn read(
        &mut self,
        cut_result: &CutResult,
        origin: impl Fn() -> Origin,
    ) {
        self.ledger.read.add(u64::from(cut_result.length));
        self.count(cut_result, origin);
    }

    /// Computes the lower bound of the number of rows, after all rows are counted.
    pub(crate) fn close(mut self, options: &Options) -> Self {
        let packing = &options.rows.packing;
        self.lower_bound = if packing.max_length.is_some() {
            let tokens = self.packed.tokens();
            let filled = tokens.div_ceil(u64::from(packing.row_limit().get()));
            let PictureCount { pictures, tokens, .. } = self.packed_pictures;
            let shown = lower_bound_of_pictures(pictures, tokens, packing);
            lower_bound(&self.packed.pairs(), packing).max(filled).max(shown)
        } else {
            self.rows
        };
        self
    }

    /// Counts the pieces that a plan leaves out, and the documents that are in no row because of that: neither here
    /// nor `elsewhere`, and with no piece among `separate`.
    pub(in crate::pipeline) fn leave_out(
        &mut self,
        planned: &PlannedRows,
        separate: &[Piece],
        store: &DocumentStore,
        elsewhere: &HashSet<u32>,
        control: &Control,
    ) -> Result<()> {
        let mut firsts: BTreeMap<Reason, u32> = BTreeMap::new();
        for UnpackedPiece { piece, reason } in &planned.left_out {
            control.tick()?;
            self.ledger.drop_part(*reason, u64::from(piece.length));
            let first = firsts.entry(*reason).or_insert(piece.document);
            *first = piece.document.min(*first);
        }
        // The place of a document may have to be read back from the disk.
        for (reason, document) in firsts {
            self.ledger.note_first(reason, store.origin(u64::from(document)));
        }
        let separate: HashSet<u32> = separate.iter().map(|piece| piece.document).collect();
        for (document, reason) in planned.unpacked_documents(control)? {
            if !separate.contains(&document) && !elsewhere.contains(&document) {
                self.lose(reason);
            }
        }
        Ok(())
    }

    /// Counts the pieces of a dropped tail, and the documents that begin in it. Document 0 of the pieces has
    /// the number `first` in `store`.
    pub(crate) fn drop_tail(&mut self, tail: &[Piece], first: u64, store: &DocumentStore) {
        for piece in tail {
            self.ledger.drop_part(Reason::Tail, u64::from(piece.length));
            self.ledger.note_first(Reason::Tail, store.origin(first + u64::from(piece.document)));
            if piece.start == 0 {
                self.lose(Reason::Tail);
            }
        }
    }

    /// Leaves the kept documents that begin in some pieces to be counted with the rows of these pieces.
    pub(crate) fn defer(&mut self, pieces: &[Piece]) {
        self.ledger.kept.documents -= beginning(pieces);
    }

    /// Counts the documents that begin in some pieces as kept.
    pub(crate) fn begin(&mut self, pieces: &[Piece]) {
        self.ledger.kept.documents += beginning(pieces);
    }

    /// Moves a document from kept to dropped.
    fn lose(&mut self, reason: Reason) {
        self.ledger.kept.documents -= 1;
        self.ledger.dropped.entry(reason).or_default().documents += 1;
    }

    /// Counts rows of a plan, and their labels unless they were counted as `labels`.
    pub(crate) fn count_rows(
        &mut self,
        gathered: &DocumentsOfRows<'_>,
        range: Range<usize>,
        labels: Option<u64>,
    ) {
        self.rows += range.len() as u64;
        let plan = gathered.plan();
        let repeated = plan.distinct_rows().clamp(range.start, range.end);
        for piece in plan.pieces(repeated..range.end) {
            self.ledger.repeated.add(u64::from(piece.length));
        }
        for piece in gathered.pieces(range.start..repeated) {
            self.packed.add(plan.room(piece.tokens));
            self.filled += u64::from(piece.tokens);
            self.packed_pictures.merge(piece.sizes.pictures.into());
            self.ledger.kept.tokens += u64::from(piece.length);
            if labels.is_none() {
                self.trained_tokens += piece.document.labels(piece.start, piece.length);
            }
        }
        self.trained_tokens += labels.unwrap_or(0);
    }
}

/// The number of documents that begin in some pieces.
fn beginning(pieces: &[Piece]) -> u64 {
    pieces.iter().filter(|piece| piece.start == 0).count() as u64
}
