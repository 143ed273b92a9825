//! The engine of unigram models: cuts a normalized text into words, and splits each word by the scores of
//! tokens.
//!
//! The caches hold pieces of the normalized text: a word with the blanks before it, or a part of one where no token
//! can span the cut. Only a piece that no
//! cache has is written as the model reads it, with `▁` for the space, and split into tokens.

use std::ops::Range;

use super::space_prefix::{META, META_CHARACTER, SpacePrefix};
use crate::compiled::batch;
use crate::compiled::batch::EncodingOutput;
use crate::compiled::cutting::alphanumeric::run_end;
use crate::compiled::cutting::windows;
use crate::compiled::cutting::windows::CutPlaces;
use crate::compiled::normalizers::normalized::Normalized;
use crate::compiled::piece_encoder::PieceEncoder;
use crate::compiled::spans::OffsetTracker;
use crate::compiled::spans::SourceRanges;
use crate::compiled::thread_caches::ThreadMemory;
use crate::models::viterbi::{Viterbi, ViterbiBuffers};
use crate::pieces::PieceKey;
use crate::split::{Masks, SplitCursor, decode};

/// The code point of the space.
const SPACE: u32 = ' ' as u32;

/// The code point of `▁`.
const META_CODE_POINT: u32 = META_CHARACTER as u32;

/// The places at which a stretch is cut before the model reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnigramCuts {
    /// Nowhere: the text is one word.
    Whole {
        /// True if the model writes `▁` for a space.
        meta: bool,
    },
    /// Before every space, or `▁`.
    Spaces,
    /// At whitespace, which is removed, and before every `▁` if `meta`.
    Whitespace {
        /// True if a word is cut before `▁`.
        meta: bool,
    },
}

/// The tokens of a piece, and the position of the first of them.
#[derive(Clone, Copy)]
struct PieceTokens<'a> {
    position: usize,
    ids: &'a [u32],
}

/// A unigram model behind `Metaspace`, shared by all threads.
pub(crate) struct Unigram {
    viterbi: Viterbi,
    cutting: UnigramCuts,
    prefix: SpacePrefix,
}

impl Unigram {
    pub(crate) fn new(viterbi: Viterbi, cutting: UnigramCuts, prefix: SpacePrefix) -> Self {
        Self { viterbi, cutting, prefix }
    }

    /// Appends the ids of `text[start..]`, a stretch between two added tokens.
    pub(crate) fn encode(
        &self,
        text: &[u8],
        start: usize,
        memory: &mut ThreadMemory,
        out: &mut EncodingOutput<'_>,
    ) {
        let spaced = text[start..].starts_with(b" ") || text[start..].starts_with(META.as_bytes());
        let prefixed = match self.prefix {
            // The words behind whitespace say by it that they begin; the first word cannot.
            _ if matches!(self.cutting, UnigramCuts::Whitespace { .. }) => {
                whitespace(text, start).is_none()
            }
            SpacePrefix::Never => false,
            SpacePrefix::Always => true,
            SpacePrefix::Unspaced => !spaced,
            SpacePrefix::First => start == 0 && !spaced,
        };
        let mut from = start;
        if prefixed {
            from = self.piece_end(text, start);
            let position = out.ids.len();
            self.prefixed(&text[start..from], memory, out.ids);
            if from > out.offset_tracker.next() {
                let tokens = PieceTokens { position, ids: &out.ids[position..] };
                self.record_ranges(
                    &text[..from],
                    start,
                    true,
                    tokens,
                    out.origin,
                    out.offset_tracker,
                );
            }
        }
        batch::encode(self, text, from, memory, out);
    }

    /// Appends the ids of a piece with `▁` in front.
    fn prefixed(&self, piece: &[u8], memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        let start = ids.len();
        // In other engines this bit marks parts of pieces; here it marks pieces with `▁` in front.
        let short = PieceKey::of(piece).map(PieceKey::part);
        let found = short.and_then(|key| memory.short.get(key));
        if let Some(found) = found.filter(|found| found.is_whole()) {
            ids.extend(found.ids());
            return;
        }
        self.make(piece, true, memory, ids);
        if let Some(key) = short.filter(|_| found.is_none()) {
            memory.short.insert(key, &ids[start..]);
        }
    }

    /// Appends the ids of a piece that no cache has.
    fn make(&self, piece: &[u8], prefixed: bool, memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        if memory.refuses(piece) {
            return;
        }
        let ThreadMemory { spelled, ways, .. } = memory;
        self.spell(piece, prefixed, spelled);
        self.each(spelled, ways, |_, id| ids.push(id));
    }

    /// The end of the piece that begins at `start`.
    #[inline]
    fn piece_end(&self, text: &[u8], start: usize) -> usize {
        match self.cutting {
            UnigramCuts::Whole { .. } if !self.viterbi.cuts.apply(text.len()) => text.len(),
            UnigramCuts::Whole { .. } => self.word_end(text, start, |_| false),
            UnigramCuts::Spaces => {
                self.word_end(text, start, |c| c == SPACE || c == META_CODE_POINT)
            }
            UnigramCuts::Whitespace { .. } => {
                let mut at = start;
                while let Some(length) = whitespace(text, at) {
                    at += length;
                }
                self.word_end(text, at, is_whitespace)
            }
        }
    }

    /// The end of the word, or of the part of one, that begins at `start`: a word ends before a character for which
    /// `ends` says so.
    #[inline]
    fn word_end(&self, text: &[u8], start: usize, ends: impl Fn(u32) -> bool) -> usize {
        if start >= text.len() {
            return start;
        }
        let applies = self.viterbi.cuts.apply(text.len());
        // Letters and digits are not cut apart where they could be: it would take longer to find out. The last
        // character of those that begin with one, and their end.
        let run = |c: u32, end: usize| match u8::try_from(c) {
            Ok(byte) if byte.is_ascii_alphanumeric() => {
                let end = run_end(text, end);
                (u32::from(text[end - 1]), end)
            }
            _ => (c, end),
        };
        let (first, length) = decode(text, start);
        let (mut last, mut at) = run(first, start + length);
        while at < text.len() {
            let (next, length) = decode(text, at);
            if ends(next) || applies && self.cuts(last, next) {
                break;
            }
            (last, at) = run(next, at + length);
        }
        at
    }

    /// True if a word is cut between two characters.
    #[inline]
    fn cuts(&self, left: u32, right: u32) -> bool {
        let read = |c: u32| if c == SPACE && self.writes_spaces() { META_CODE_POINT } else { c };
        self.viterbi.cuts.is_between(read(left), read(right))
    }

    /// Writes a piece as the model reads it.
    fn spell(&self, piece: &[u8], prefixed: bool, out: &mut Vec<u8>) {
        out.clear();
        let (word, prefixed) = self.word(piece, prefixed);
        if prefixed {
            out.extend_from_slice(META.as_bytes());
        }
        let mut rest = word;
        while let Some(space) = self.writes_spaces().then(|| memchr::memchr(b' ', rest)).flatten() {
            out.extend_from_slice(&rest[..space]);
            out.extend_from_slice(META.as_bytes());
            rest = &rest[space + 1..];
        }
        out.extend_from_slice(rest);
    }

    /// True if the model reads `▁` for a space.
    fn writes_spaces(&self) -> bool {
        self.cutting != UnigramCuts::Whole { meta: false }
    }

    /// The part of a piece that the model reads, and whether `▁` is put in front.
    #[inline]
    fn word<'a>(&self, piece: &'a [u8], prefixed: bool) -> (&'a [u8], bool) {
        let (mut word, mut prefixed) = (piece, prefixed);
        if let UnigramCuts::Whitespace { .. } = self.cutting {
            let mut at = 0;
            while let Some(length) = whitespace(piece, at) {
                at += length;
            }
            word = &piece[at..];
            prefixed = (prefixed || at > 0)
                && self.prefix == SpacePrefix::Unspaced
                && !word.starts_with(META.as_bytes());
        }
        (word, prefixed && !word.is_empty())
    }

    /// Writes a piece as the model reads it, with the source range of each byte.
    fn write(
        &self,
        piece: &[u8],
        begin: usize,
        prefixed: bool,
        origin: SourceRanges<'_>,
        out: &mut Normalized,
    ) {
        let (word, prefixed) = self.word(piece, prefixed);
        let start = begin + piece.len() - word.len();
        let word = std::str::from_utf8(word).expect("a text is cut between characters");
        let mut append = |written: &str, at: usize, length: usize| {
            out.text.push_str(written);
            let source = origin.of(at, at + length);
            out.sources.extend(std::iter::repeat_n(source, written.len()));
        };
        if prefixed {
            // The source of the added `▁` is the first character.
            append(META, start, word.chars().next().map_or(1, char::len_utf8));
        }
        for (at, c) in word.char_indices() {
            let written =
                if c == ' ' && self.writes_spaces() { META } else { &word[at..at + c.len_utf8()] };
            append(written, start + at, c.len_utf8());
        }
    }

    /// Calls `token` with each token of a piece, which is written as the model reads it.
    fn each(
        &self,
        text: &[u8],
        ways: &mut ViterbiBuffers,
        mut token: impl FnMut(Range<usize>, u32),
    ) {
        let cut = !matches!(
            self.cutting,
            UnigramCuts::Whole { .. } | UnigramCuts::Whitespace { meta: false }
        );
        let mut start = 0;
        while start < text.len() {
            let next = cut.then(|| next_meta(text, start + 1)).flatten();
            let end = next.unwrap_or(text.len());
            self.viterbi.each(&text[start..end], ways, |range, id| {
                token(start + range.start..start + range.end, id);
            });
            start = end;
        }
    }

    /// Records the source ranges of the tokens of the piece `text[begin..]`.
    fn record_ranges(
        &self,
        text: &[u8],
        begin: usize,
        prefixed: bool,
        PieceTokens { position, ids }: PieceTokens<'_>,
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        if ids.iter().any(|id| self.viterbi.length(*id).is_none()) {
            return self.record_ranges_of_unknown(
                text,
                begin,
                prefixed,
                position,
                origin,
                offset_tracker,
            );
        }
        let (word, prefixed) = self.word(&text[begin..], prefixed);
        let mut at = text.len() - word.len();
        let mut pending = if prefixed { META.len() } else { 0 };
        for (position, id) in (position..).zip(ids) {
            let start = at;
            let mut left = self.viterbi.length(*id).unwrap_or_default();
            let skipped = left.min(pending);
            (left, pending) = (left - skipped, pending - skipped);
            while left > 0 {
                let is_space = text[at] == b' ' && self.writes_spaces();
                left -= if is_space { META.len() } else { 1 };
                at += 1;
            }
            // The source of the added `▁` is the first character.
            let end = if at == start { start + decode(text, start).1 } else { at };
            offset_tracker.token(position, origin.of(start, end));
        }
    }

    /// As [`Self::record_ranges`], where the tokens do not say how long their text is.
    #[cold]
    fn record_ranges_of_unknown(
        &self,
        text: &[u8],
        begin: usize,
        prefixed: bool,
        position: usize,
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        let (mut written, mut ways) = (Normalized::default(), ViterbiBuffers::default());
        self.write(&text[begin..], begin, prefixed, origin, &mut written);
        let mut position = position;
        self.each(written.text.as_bytes(), &mut ways, |range, _| {
            let (first, last) = (&written.sources[range.start], &written.sources[range.end - 1]);
            offset_tracker.token(position, first.start..last.end);
            position += 1;
        });
    }
}

/// The position of the next `▁` from `at` on.
fn next_meta(text: &[u8], at: usize) -> Option<usize> {
    let found = memchr::memmem::find(text.get(at..)?, META.as_bytes())?;
    Some(at + found)
}

/// The length of the whitespace character at `at`, if there is one.
#[inline]
fn whitespace(text: &[u8], at: usize) -> Option<usize> {
    text.get(at)?;
    let (code_point, length) = decode(text, at);
    is_whitespace(code_point).then_some(length)
}

#[inline]
fn is_whitespace(code_point: u32) -> bool {
    char::from_u32(code_point).is_some_and(char::is_whitespace)
}

impl CutPlaces for Unigram {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each way to make the masks")]
    fn between(&self, masks: Masks, edges: u64, text: &[u8]) -> u64 {
        let Masks { letter, digit, space, blank, newline, .. } = masks;
        // A word begins at every space, or at whitespace that is removed: at its first character, and at its last, so
        // that it is the same word, however far it stands from the one before.
        let (white, begin) = match self.cutting {
            UnigramCuts::Whitespace { .. } => {
                let white = blank | newline;
                (white, white & !(white << 1) | white & !(white >> 1) & edges >> 1)
            }
            UnigramCuts::Whole { .. } => (0, 0),
            UnigramCuts::Spaces => (space, space),
        };
        let found = begin & edges;
        if !self.viterbi.cuts.apply(text.len()) {
            return found;
        }
        let kept = letter | digit;
        let candidates = edges & !(white | white << 1) & !(kept & kept << 1);
        found
            | windows::cut_bits(candidates, text, |left, right| {
                self.cuts(left.into(), right.into())
            })
    }

    #[inline]
    fn next(&self, text: &[u8], start: usize) -> usize {
        self.piece_end(text, start)
    }
}

impl PieceEncoder for Unigram {
    #[inline]
    fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
        windows::fill(self, text, cursor, ends)
    }

    fn miss(&self, piece: &[u8], _: bool, memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        self.make(piece, false, memory, ids);
    }

    fn record_offsets(
        &self,
        text: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        self.record_ranges(
            text,
            begin,
            false,
            PieceTokens { position, ids },
            origin,
            offset_tracker,
        );
    }
}
