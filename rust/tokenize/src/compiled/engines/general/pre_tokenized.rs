//! A stretch of text while pre-tokenizers run: its rewritten text, its pieces, and their source ranges.

use std::ops::Range;

use super::super::space_prefix::SpacePrefix;
use super::pre_tokenizer_stage::PreTokenizerStage;
use super::scripts;
use crate::compiled::spans::SourceRanges;
use crate::split::{SplitCursor, Splitter, decode, position};
use crate::unicode::byte_letters::byte_letters;

/// The number of ends of pieces that are found in one call.
const TOGETHER: usize = 128;

/// The stretch before any step.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    pub(super) text: &'a [u8],
    /// The start of the stretch in `text`.
    pub(super) start: usize,
    pub(super) origin: SourceRanges<'a>,
    /// True if source ranges are wanted.
    pub(super) wants_source_ranges: bool,
}

/// The start and the end of a piece.
type PieceRange = (u32, u32);

/// The text, pieces and source ranges after a step.
#[derive(Default)]
struct StepOutput {
    text: Vec<u8>,
    pieces: Vec<PieceRange>,
    /// The source range of each byte of `text`; empty if source ranges are not wanted.
    sources: Vec<Range<usize>>,
}

/// A stretch after some steps, with the buffers for the next one.
#[derive(Default)]
pub(crate) struct PreTokenized {
    form: StepOutput,
    /// True if the text is in `form`, and no longer in the stretch.
    rewritten: bool,
    next: StepOutput,
    ends: Vec<u32>,
}

impl PreTokenized {
    /// Makes the stretch the only piece.
    pub(super) fn begin(&mut self, stretch: &SourceText<'_>) {
        self.rewritten = false;
        self.form.pieces.clear();
        self.form.pieces.push((position(stretch.start), position(stretch.text.len())));
    }

    /// The text that holds the pieces.
    pub(super) fn text<'a>(&'a self, stretch: &SourceText<'a>) -> &'a [u8] {
        if self.rewritten { &self.form.text } else { stretch.text }
    }

    /// That text, with its source ranges.
    pub(super) fn origin<'a>(&'a self, stretch: &SourceText<'a>) -> SourceRanges<'a> {
        if self.rewritten {
            SourceRanges { sources: stretch.wants_source_ranges.then_some(&self.form.sources) }
        } else {
            stretch.origin
        }
    }

    /// The start and the end of each piece in that text.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.form.pieces.iter().map(|(start, end)| (*start as usize, *end as usize))
    }

    /// The end of each piece, after the stretch has been [closed](Self::close).
    pub(super) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Applies a step to all pieces.
    pub(super) fn apply(&mut self, stage: &PreTokenizerStage, stretch: &SourceText<'_>) {
        let mut next = std::mem::take(&mut self.next);
        next.pieces.clear();
        if stage.rewrites() {
            next.text.clear();
            next.sources.clear();
            self.rewrite(stage, stretch, &mut next);
            std::mem::swap(&mut self.form, &mut next);
            self.rewritten = true;
        } else {
            let text = self.text(stretch);
            for (start, end) in &self.form.pieces {
                split(stage, text, *start as usize..*end as usize, &mut next.pieces);
            }
            std::mem::swap(&mut self.form.pieces, &mut next.pieces);
        }
        self.next = next;
    }

    /// Writes the result of a step for all pieces.
    fn rewrite(&self, stage: &PreTokenizerStage, stretch: &SourceText<'_>, out: &mut StepOutput) {
        let (text, origin) = (self.text(stretch), self.origin(stretch));
        let mut writer =
            Writer { origin, wants_source_ranges: stretch.wants_source_ranges, out, begin: 0 };
        for (start, end) in &self.form.pieces {
            let range = *start as usize..*end as usize;
            let piece = &text[range.clone()];
            writer.begin = writer.out.text.len();
            match stage {
                PreTokenizerStage::Metaspace { replacement, prefix, split } => {
                    let mut buffer = [0; 4];
                    let written = replacement.encode_utf8(&mut buffer).as_bytes();
                    let has_prefix = piece.starts_with(b" ") || piece.starts_with(written);
                    let first =
                        *prefix == SpacePrefix::First && !self.rewritten && range.start == 0;
                    if !has_prefix && (*prefix == SpacePrefix::Unspaced || first) {
                        writer.append(written, range.start, character(piece));
                    }
                    writer.metaspace(piece, range.start, written, *split);
                }
                PreTokenizerStage::PrefixSpace => {
                    if !piece.starts_with(b" ") {
                        writer.append(b" ", range.start, character(piece));
                    }
                    writer.keep(piece, range.start);
                }
                _ => writer.bytes(piece, range.start),
            }
            writer.close();
        }
    }

    /// Makes the pieces adjacent, and lists their ends. Returns the start of the first piece, if there is
    /// one.
    pub(super) fn close(&mut self, stretch: &SourceText<'_>) -> Option<usize> {
        let (first, _) = *self.form.pieces.first()?;
        let tiles = self.form.pieces.windows(2).all(|pair| pair[0].1 == pair[1].0);
        self.ends.clear();
        if tiles {
            self.ends.extend(self.form.pieces.iter().map(|piece| piece.1));
            return Some(first as usize);
        }
        let mut next = std::mem::take(&mut self.next);
        next.text.clear();
        next.sources.clear();
        let mut ends = std::mem::take(&mut self.ends);
        let (text, origin) = (self.text(stretch), self.origin(stretch));
        let mut writer = Writer {
            origin,
            wants_source_ranges: stretch.wants_source_ranges,
            out: &mut next,
            begin: 0,
        };
        for (start, end) in &self.form.pieces {
            writer.keep(&text[*start as usize..*end as usize], *start as usize);
            ends.push(position(writer.out.text.len()));
        }
        std::mem::swap(&mut self.form, &mut next);
        (self.rewritten, self.next, self.ends) = (true, next, ends);
        Some(0)
    }
}

/// Appends to the text that a step writes.
struct Writer<'a> {
    /// The text that the step reads, with its source ranges.
    origin: SourceRanges<'a>,
    wants_source_ranges: bool,
    out: &'a mut StepOutput,
    /// The start of the piece that is being written.
    begin: usize,
}

impl Writer<'_> {
    /// Appends a text whose source is the `length` bytes at `at`.
    fn append(&mut self, text: &[u8], at: usize, length: usize) {
        self.out.text.extend_from_slice(text);
        if self.wants_source_ranges {
            let source = self.origin.of(at, at + length);
            self.out.sources.extend(std::iter::repeat_n(source, text.len()));
        }
    }

    /// Appends the unchanged text at `at`.
    fn keep(&mut self, text: &[u8], at: usize) {
        if !self.wants_source_ranges {
            self.out.text.extend_from_slice(text);
            return;
        }
        let mut done = 0;
        while done < text.len() {
            let length = character(&text[done..]);
            self.append(&text[done..done + length], at + done, length);
            done += length;
        }
    }

    /// Appends a piece with `written` in place of its spaces, and cuts before each of these if `split`.
    fn metaspace(&mut self, piece: &[u8], at: usize, written: &[u8], split: bool) {
        let (mut done, mut from) = (0, 0);
        while let Some(found) = memchr::memchr2(b' ', written[0], &piece[from..]) {
            let next = from + found;
            let length = match &piece[next..] {
                rest if rest.starts_with(b" ") => 1,
                rest if split && rest.starts_with(written) => written.len(),
                _ => {
                    from = next + 1;
                    continue;
                }
            };
            self.keep(&piece[done..next], at + done);
            if split {
                self.close();
            }
            self.append(written, at + next, length);
            done = next + length;
            from = done;
        }
        self.keep(&piece[done..], at + done);
    }

    /// Appends the characters that stand for the bytes of a piece.
    fn bytes(&mut self, piece: &[u8], at: usize) {
        let letters = byte_letters();
        if !self.wants_source_ranges {
            for byte in piece {
                self.out.text.extend_from_slice(letters[usize::from(*byte)].as_bytes());
            }
            return;
        }
        let mut done = 0;
        while done < piece.len() {
            let length = character(&piece[done..]);
            for byte in &piece[done..done + length] {
                self.append(letters[usize::from(*byte)].as_bytes(), at + done, length);
            }
            done += length;
        }
    }

    /// Ends a piece; the next piece begins at its end.
    fn close(&mut self) {
        let end = self.out.text.len();
        if end > self.begin {
            self.out.pieces.push((position(self.begin), position(end)));
        }
        self.begin = end;
    }
}

/// The length in bytes of the first character of a text that is not empty.
fn character(text: &[u8]) -> usize {
    decode(text, 0).1.min(text.len())
}

/// Appends the pieces that a step cuts `text[range]` into.
fn split(
    stage: &PreTokenizerStage,
    text: &[u8],
    range: Range<usize>,
    pieces: &mut Vec<PieceRange>,
) {
    match stage {
        PreTokenizerStage::Cut(splitter) => cut(splitter, &text[..range.end], range.start, pieces),
        PreTokenizerStage::Remove(step) => {
            step.kept(&text[..range.end], range.start, |start, end| {
                pieces.push((position(start), position(end)));
            });
        }
        PreTokenizerStage::Scripts => {
            scripts::split(&text[..range.end], range.start, |start, end| {
                pieces.push((position(start), position(end)));
            });
        }
        PreTokenizerStage::FixedLength(length) => {
            let (mut at, mut start, mut count) = (range.start, range.start, 0);
            while at < range.end {
                at += character(&text[at..range.end]);
                count += 1;
                if count == *length || at == range.end {
                    pieces.push((position(start), position(at)));
                    (start, count) = (at, 0);
                }
            }
        }
        PreTokenizerStage::Metaspace { .. }
        | PreTokenizerStage::PrefixSpace
        | PreTokenizerStage::Bytes => {}
    }
}

/// Appends the pieces of `text[start..]`.
fn cut(splitter: &Splitter, text: &[u8], start: usize, pieces: &mut Vec<PieceRange>) {
    let (mut cursor, mut ends) = (SplitCursor::new(start), [0; TOGETHER]);
    let mut begin = position(start);
    loop {
        let count = splitter.fill(text, &mut cursor, &mut ends);
        if count == 0 {
            return;
        }
        for end in &ends[..count] {
            pieces.push((begin, *end));
            begin = *end;
        }
    }
}
