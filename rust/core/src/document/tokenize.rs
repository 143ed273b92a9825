//! [`Rendered`] text to a document: ids, and the tokens that its spans touch.

use std::ops::Range;

use fastpack_tokenize::{Encoder, Encoding, SpecialTokens, Tokenizer};

use super::bos_and_eos::{BosAndEos, TextKind};
use super::document_pictures;
use super::documents::Documents;
use super::ragged_columns::{PICTURES, TURN_ENDS};
use super::span_edges::SpanEdges;
use super::surrounding_tokens::SurroundingTokens;
use super::template_literals::TemplateLiterals;
use crate::config::Bos;
use crate::record::Fault;
use crate::record::TrainedRun;
use crate::report::ledger::{Ledger, PictureCount, Reason};
use crate::template::{Rendered, Span, Trained};
use crate::util::control::Control;

/// Tokens whose memory is kept for the next document: that of one of a GiB is given up.
const KEPT: usize = 1 << 22;

/// One thread's way from text to documents.
#[derive(Debug)]
pub struct DocumentMaker {
    pub(super) encoder: Encoder,
    /// The tokens that the tokenizer puts around texts.
    pub(super) frames: SurroundingTokens,
    pub(super) bos_and_eos: BosAndEos,
    literals: TemplateLiterals,
    pub(super) encoding: Encoding,
    ranges: Vec<Range<usize>>,
    edges: SpanEdges,
    /// The number of tokens before each place at which the document may be cut.
    turn_ends: Vec<u32>,
    /// The tokens of each picture.
    pictures: Vec<Range<u32>>,
    runs: Vec<TrainedRun>,
}

impl DocumentMaker {
    /// A maker for one thread.
    pub fn new(tokenizer: &Tokenizer, bos_and_eos: BosAndEos) -> Self {
        Self {
            encoder: tokenizer.encoder(),
            frames: SurroundingTokens::of(tokenizer),
            bos_and_eos,
            literals: TemplateLiterals::default(),
            encoding: Encoding::default(),
            ranges: Vec::new(),
            edges: SpanEdges::default(),
            turn_ends: Vec::new(),
            pictures: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Has the maker give up a long text soon after the run is cancelled.
    #[must_use]
    pub fn stopped_by(self, control: &Control) -> Self {
        Self { encoder: self.encoder.stopped_by(control.flag()), ..self }
    }

    /// Tokenizes `rendered` and appends it to `documents`, or counts in `ledger` why not.
    ///
    /// A document without one label is dropped: nothing can be learned from it.
    pub fn make(
        &mut self,
        rendered: &Rendered,
        kind: TextKind,
        line: u64,
        documents: &mut Documents,
        ledger: &mut Ledger,
    ) -> Result<(), Fault> {
        let eos_added = self.encode(rendered, kind)?;
        let tokens = self.encoding.ids.len();
        let too_many = |_| {
            Fault::new(
                Reason::Tokenizer,
                format!("the document has {tokens} tokens, more than a row can hold"),
            )
        };
        let length = u32::try_from(tokens).map_err(too_many)?;
        if length == 0 {
            return Err(Fault::new(Reason::Empty, "the text has no token"));
        }
        ledger.read.add(u64::from(length));
        self.mark(rendered, length, eos_added);
        if self.runs.last().is_none_or(|run| run.end <= 1) {
            let origin = documents.origin_of(line);
            ledger.drop_document(Reason::NoTrainedToken, u64::from(length), origin);
        } else {
            ledger.straddling += self.straddling();
            let of_pictures =
                self.pictures.iter().map(|tokens| u64::from(tokens.end - tokens.start));
            let pixels = rendered.pictures.iter().map(|picture| picture.size.pixels());
            ledger.pictures.merge(PictureCount {
                pictures: rendered.pictures.len() as u64,
                tokens: of_pictures.sum(),
                pixels: pixels.clone().sum(),
                most_pixels: pixels.max().unwrap_or_default(),
            });
            let mut words = Vec::new();
            for (picture, tokens) in rendered.pictures.iter().zip(&self.pictures) {
                document_pictures::write(picture, tokens, &mut words);
            }
            let columns = [&self.encoding.ids[..], &self.turn_ends, &words];
            push(documents, columns, self.runs.drain(..), line);
            documents.mark_turn(rendered.turn);
            if kind != TextKind::Conversation {
                documents.mark_text();
            }
        }
        Ok(())
    }

    /// The ids of a text.
    pub(super) fn encode_text(
        &mut self,
        text: &str,
        special: SpecialTokens,
    ) -> Result<&[u32], Fault> {
        if self.encoding.ids.capacity() > KEPT {
            self.encoding = Encoding::default();
        }
        self.encoding.clear();
        self.encoder
            .encode(text, &[], special, &mut self.encoding)
            .map_err(|error| Fault::new(Reason::Tokenizer, error.to_string()))?;
        Ok(&self.encoding.ids)
    }

    /// True if `reference` makes the same document of `rendered` as [`DocumentMaker::make`] has just made.
    ///
    /// To be asked of texts of at most [`LONGEST_COMPARED`](fastpack_tokenize::LONGEST_COMPARED) bytes.
    pub fn agrees(&self, rendered: &Rendered, kind: TextKind, reference: &mut Self) -> bool {
        reference.encode(rendered, kind).is_ok() && reference.encoding == self.encoding
    }

    /// Fills `encoding` with the ids, the first and the last of them those that begin and end a text where they are
    /// due.
    ///
    /// Returns whether the last ends the text and is not of the text itself.
    fn encode(&mut self, rendered: &Rendered, kind: TextKind) -> Result<bool, Fault> {
        if self.encoding.ids.capacity() > KEPT {
            self.encoding = Encoding::default();
        }
        self.encoding.clear();
        self.ranges.clear();
        if let Trained::Spans(spans) = &rendered.trained {
            // The tokens between the spans count too: a token that two spans touch straddles their boundary.
            let mut reached = 0;
            for Span { range, .. } in spans {
                self.ranges.extend([reached..range.start, range.clone()]);
                reached = range.end;
            }
            self.ranges.push(reached..rendered.text.len());
        }
        let special = if self.bos_and_eos.frames(&rendered.text, kind) {
            SpecialTokens::Add
        } else {
            SpecialTokens::Omit
        };
        let has_places = !(rendered.turn_ends.is_empty() && rendered.pictures.is_empty());
        let spans = has_places.then(|| std::mem::take(&mut self.ranges));
        if let Some(spans) = &spans {
            let Rendered { text, turn_ends, pictures, .. } = rendered;
            let ends = pictures.iter().flat_map(|it| [it.range.start, it.range.end]);
            let cuts: Vec<usize> = turn_ends.iter().copied().chain(ends).collect();
            self.edges.stretches(spans, &cuts, text.len(), &mut self.ranges);
        }
        if rendered.ordinary.is_empty() {
            let Self { encoder, literals, ranges, encoding, .. } = self;
            literals.look_up(rendered, encoder);
            encoder
                .encode_around(
                    &rendered.text,
                    literals.stable_segments(),
                    ranges,
                    special,
                    encoding,
                )
                .map_err(|error| Fault::new(Reason::Tokenizer, error.to_string()))?;
        } else {
            let ranges = std::mem::take(&mut self.ranges);
            self.encode_pieces(rendered, kind, &ranges)?;
            self.ranges = ranges;
        }
        self.turn_ends.clear();
        self.pictures.clear();
        if let Some(spans) = spans {
            let stretches = std::mem::take(&mut self.encoding.touched);
            let touched = spans.iter().map(|span| self.edges.touched(span, &stretches));
            self.encoding.touched.extend(touched);
            let cuts = rendered.turn_ends.iter();
            let before = cuts.filter_map(|&cut| self.edges.tokens_before(cut, &stretches));
            self.turn_ends.extend(before.map_while(|tokens| u32::try_from(tokens).ok()));
            self.turn_ends.dedup();
            let pictures = rendered.pictures.iter();
            let tokens = pictures.map(|it| self.edges.touched(&it.range, &stretches));
            let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            self.pictures.extend(tokens.map(|it| number(it.start)..number(it.end)));
            self.ranges = spans;
        }
        let Rendered { text, ordinary, .. } = rendered;
        if kind == TextKind::Text {
            self.leave_out_doubled(text, ordinary)?;
        }
        let ids = &mut self.encoding.ids;
        if let Some(bos) = ids.first().and_then(|first| self.bos_and_eos.bos_due(Some(*first))) {
            ids.insert(0, bos);
            for touched in &mut self.encoding.touched {
                *touched = touched.start + 1..touched.end + 1;
            }
            for end in &mut self.turn_ends {
                *end = end.saturating_add(1);
            }
            for tokens in &mut self.pictures {
                *tokens = tokens.start.saturating_add(1)..tokens.end.saturating_add(1);
            }
        }
        let due = self.eos_due(text, ordinary, kind);
        self.encoding.ids.extend(due);
        let ends =
            || self.encoding.ids.last().is_some_and(|last| Some(*last) == self.bos_and_eos.eos_id);
        let has_own = kind == TextKind::Conversation || self.bos_and_eos.ends(text, ordinary);
        Ok(due.is_some() || !has_own && ends())
    }

    /// The token that ends a text, if the text in `encoding` is to end with it and does not.
    pub(super) fn eos_due(
        &self,
        text: &str,
        ordinary: &[Range<usize>],
        kind: TextKind,
    ) -> Option<u32> {
        let last = *self.encoding.ids.last()?;
        let due = self.bos_and_eos.eos_of(kind).filter(|eos| *eos != last)?;
        (!self.bos_and_eos.ends(text, ordinary)).then_some(due)
    }

    /// Leaves out of `encoding` the tokens that the tokenizer put around a text that has them itself, and the token that
    /// begins a text if none is wanted.
    pub(super) fn leave_out_doubled(
        &mut self,
        text: &str,
        ordinary: &[Range<usize>],
    ) -> Result<(), Fault> {
        let (has_begin, ends) = (
            self.bos_and_eos.starts_with_begin(text, ordinary),
            self.bos_and_eos.ends(text, ordinary),
        );
        if !has_begin && !ends && self.bos_and_eos.bos != Bos::Never {
            return Ok(());
        }
        let frame = self.frames.parts(1)?;
        if let Some(after) = self.bos_and_eos.left_out_after(&frame, ends) {
            let from_end = frame.len() - after;
            let ids = &mut self.encoding.ids;
            ids.remove(ids.len() - from_end);
        }
        let ids = &mut self.encoding.ids;
        if let Some(before) = self.bos_and_eos.left_out_before(&frame, has_begin)
            && (!has_begin || ids.get(before + 1) == self.bos_and_eos.bos_id.as_ref())
        {
            ids.remove(before);
            for touched in &mut self.encoding.touched {
                *touched = touched.start.saturating_sub(1)..touched.end.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Fills `runs` from the tokens that the spans touch: ascending and disjoint, also where a token straddles two spans.
    fn mark(&mut self, rendered: &Rendered, length: u32, eos_added: bool) {
        self.runs.clear();
        let spans = match &rendered.trained {
            Trained::All => {
                self.runs.push(TrainedRun { start: 0, end: length, weight: 1.0 });
                &[][..]
            }
            Trained::Spans(spans) => spans,
        };
        let inside = self.encoding.touched.iter().skip(1).step_by(2);
        for (touched, span) in inside.zip(spans) {
            let bound = |position: usize| u32::try_from(position).unwrap_or(length);
            push_run(&mut self.runs, bound(touched.start), bound(touched.end), span.weight);
        }
        if let Some(last) = spans.last().filter(|_| eos_added)
            && rendered.text[last.range.end..].trim().is_empty()
        {
            // The last turn is a trained one, and so is its end.
            push_run(&mut self.runs, length - 1, length, last.weight);
        }
        if rendered.end_untrained
            && let Some(end) = self.end_of(rendered)
        {
            for run in &mut self.runs {
                run.end = run.end.min(end);
            }
            self.runs.retain(|run| run.start < run.end);
        }
        leave_out(&self.pictures, &mut self.runs);
    }

    /// The number of tokens before the one that ends the text.
    fn end_of(&self, rendered: &Rendered) -> Option<u32> {
        let Self { encoding, bos_and_eos, .. } = self;
        let eos = bos_and_eos.eos_id?;
        let at = match encoding.ids.last() {
            Some(last) if *last == eos => encoding.ids.len() - 1,
            _ if bos_and_eos.ends(&rendered.text, &rendered.ordinary) => {
                encoding.ids.iter().rposition(|id| *id == eos)?
            }
            _ => return None,
        };
        u32::try_from(at).ok()
    }

    /// The number of tokens that are partly trained, or lie in spans of different weights.
    fn straddling(&self) -> u64 {
        let neighbours = self.encoding.touched.windows(2);
        let shared = neighbours.map(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            if before.is_empty() || after.is_empty() {
                0
            } else {
                before.end.saturating_sub(after.start)
            }
        });
        shared.sum::<usize>() as u64
    }
}

/// Appends a document, with the places at which it may be cut if such are kept.
pub(super) fn push(
    documents: &mut Documents,
    [ids, turn_ends, pictures]: [&[u32]; 3],
    runs: impl IntoIterator<Item = TrainedRun>,
    line: u64,
) {
    let mut columns = vec![ids];
    columns.extend(documents.has(TURN_ENDS).then_some(turn_ends));
    columns.extend(documents.has(PICTURES).then_some(pictures));
    documents.push(&columns, runs, line);
}

/// Cuts the tokens of pictures out of trained runs. Both are ascending.
fn leave_out(pictures: &[Range<u32>], runs: &mut Vec<TrainedRun>) {
    if pictures.is_empty() {
        return;
    }
    let mut kept = Vec::with_capacity(runs.len());
    let mut pictures = pictures.iter().peekable();
    for run in runs.iter() {
        let mut start = run.start;
        while let Some(picture) = pictures.next_if(|picture| picture.start < run.end) {
            if start < picture.start {
                kept.push(TrainedRun { start, end: picture.start, ..*run });
            }
            start = start.max(picture.end);
        }
        if start < run.end {
            kept.push(TrainedRun { start, ..*run });
        }
    }
    *runs = kept;
}

/// Appends the part of a run that comes after the runs so far, to the last of them where they meet.
fn push_run(runs: &mut Vec<TrainedRun>, start: u32, end: u32, weight: f32) {
    let start = start.max(runs.last().map_or(0, |run| run.end));
    if start >= end {
        return;
    }
    match runs.last_mut() {
        Some(open) if open.end == start && open.weight.to_bits() == weight.to_bits() => {
            open.end = end;
        }
        _ => runs.push(TrainedRun { start, end, weight }),
    }
}
