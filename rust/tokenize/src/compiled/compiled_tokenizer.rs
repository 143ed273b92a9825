//! [`Compiled`]: encodes a whole text: finds added tokens, normalizes what lies between them, and calls the engine of the model.

use std::fmt;
use std::ops::Range;

use super::batch;
use super::batch::EncodingOutput;
use super::cutting::independent_parts::StableSegment;
use super::engines::bert_word_piece::WordPieceEngine;
use super::engines::byte_level::ByteLevel;
use super::engines::general::GeneralEngine;
use super::engines::sentence_piece_bpe::SentencePieceBpe;
use super::engines::unigram::Unigram;
use super::normalizers::normalize::Normalizer;
use super::post_processor::PostProcessorTemplate;
use super::prefix_space::SpacedText;
use super::spans::{OffsetTracker, SourceRanges};
use super::thread_caches::ThreadMemory;
use crate::added::{ContainsAny, Matcher};
use crate::encoding::{Encoding, SpecialTokens};
use crate::error::Error;

/// Bytes of the longest normalized text: positions are 32 bits.
const LONGEST_NORMALIZED: usize = u32::MAX as usize - (1 << 10);

/// A model, which encodes the stretches between added tokens.
pub(super) enum CompiledModel {
    ByteLevel(ByteLevel),
    General(GeneralEngine),
    Sentence(SentencePieceBpe),
    Unigram(Unigram),
    Words(WordPieceEngine),
}

/// A recognised tokenizer, shared by all threads.
pub(crate) struct Compiled {
    /// The added tokens that match the text as it is.
    pub(super) raw: Matcher,
    /// The added tokens that match the normalized text.
    pub(super) normalized: Matcher,
    /// The normalizer of whole texts. A `WordPiece` model normalizes its pieces itself where it can.
    pub(super) normalizer: Option<Normalizer>,
    /// Finds the texts that every stretch in need of the normalizer contains. `None` if all stretches need
    /// it. For other stretches, the model itself does the work of the normalizer.
    pub(super) seldom: Option<ContainsAny>,
    /// True if a stretch that does not begin with a space gets one.
    pub(super) prefix_space: bool,
    pub(super) model: CompiledModel,
    pub(super) template: PostProcessorTemplate,
    /// The ids whose tokens are not written the same in every text: blanks at their edges depend on the text.
    pub(super) varied: Vec<u32>,
}

impl Compiled {
    /// A tokenizer without added tokens and without a normalizer.
    pub(super) fn new(model: CompiledModel, template: PostProcessorTemplate) -> Self {
        let (raw, normalized) = (Matcher::default(), Matcher::default());
        Self {
            raw,
            normalized,
            normalizer: None,
            seldom: None,
            prefix_space: false,
            model,
            template,
            varied: Vec::new(),
        }
    }

    /// Appends the ids of `text` and the tokens that the spans touch, as [`crate::Encoder::encode_around`]
    /// says.
    pub(crate) fn encode<'s>(
        &self,
        text: &str,
        settled: impl Iterator<Item = (usize, &'s StableSegment)> + Clone,
        spans: &[Range<usize>],
        special: SpecialTokens,
        memory: &mut ThreadMemory,
        out: &mut Encoding,
    ) {
        let mut offset_tracker = match self.normalizer {
            _ if spans.is_empty() => OffsetTracker::Nothing,
            // The text is written into a buffer, so the source range is told for each token.
            _ if matches!(&self.model, CompiledModel::General(model) if !model.records_in_place()) => {
                OffsetTracker::all(self.composes())
            }
            _ if self.seldom.is_some() => OffsetTracker::new(text, spans),
            // Normalizing changes nearly every text.
            Some(Normalizer::Bert(_) | Normalizer::Chain(_)) => OffsetTracker::all(self.composes()),
            _ => OffsetTracker::new(text, spans),
        };
        if special == SpecialTokens::Add {
            out.ids.extend_from_slice(self.template.before());
        }
        let begin = out.ids.len();
        self.ids(text, settled.clone(), memory, &mut out.ids, &mut offset_tracker);
        if offset_tracker.is_lost() {
            out.ids.truncate(begin);
            offset_tracker = OffsetTracker::all(self.composes());
            self.ids(text, settled, memory, &mut out.ids, &mut offset_tracker);
        }
        let end = out.ids.len();
        if special == SpecialTokens::Add {
            out.ids.extend_from_slice(self.template.after());
        }
        offset_tracker.finish(text, spans, end, out.ids.len(), &mut out.touched);
    }

    /// True if normalizing can make a text several times as long.
    pub(crate) fn expands(&self) -> bool {
        matches!(self.model, CompiledModel::General(_))
            || self.normalizer.as_ref().is_some_and(Normalizer::expands)
    }

    /// The normalizer of whole texts, or of words.
    fn any_normalizer(&self) -> Option<&Normalizer> {
        let of_words = match &self.model {
            CompiledModel::General(model) => model.normalizer(),
            _ => None,
        };
        self.normalizer.as_ref().or(of_words)
    }

    /// True if the normalizer composes letters and marks.
    pub(super) fn composes(&self) -> bool {
        self.any_normalizer().is_some_and(Normalizer::composes)
    }

    /// The normalized content of an added token that matches normalized text.
    pub(crate) fn normalized(&self, content: &str) -> String {
        let normalizer = self.any_normalizer();
        normalizer.map_or_else(|| content.to_owned(), |normalizer| normalizer.normalized(content))
    }

    /// The start of the last added token in `text` that all texts have which begin with `text`; 0 if there is none.
    pub(crate) fn last_added(&self, text: &str) -> usize {
        self.raw.last_start(text)
    }

    /// The part of `text` whose ids do not depend on the surrounding text, if there is one.
    pub(crate) fn stable_segment(
        &self,
        text: &str,
        memory: &mut ThreadMemory,
    ) -> Option<StableSegment> {
        let range = self.raw.settled(text)?;
        let (mut ids, mut offset_tracker) = (Vec::new(), OffsetTracker::all(false));
        let mut from = range.start;
        for found in self.raw.matches(text) {
            let between = &text[from..found.range.start];
            let normalizer = match &self.model {
                CompiledModel::General(model) => model.normalizer().or(self.normalizer.as_ref()),
                _ => self.normalizer_of(between),
            };
            let normalizer = normalizer.filter(|_| !between.is_empty());
            // A text that normalizing changes gets its source ranges in another way.
            if normalizer.is_some_and(|it| it.normalize(between, 0, false).is_some()) {
                return None;
            }
            from = found.range.end;
        }
        self.found(text, range.clone(), memory, &mut ids, &mut offset_tracker);
        Some(StableSegment {
            text: text.into(),
            range,
            ids,
            sources: offset_tracker.into_sources(),
        })
    }

    /// Appends the ids of `text`; the ids of the `settled` parts are copied.
    pub(super) fn ids<'s>(
        &self,
        text: &str,
        settled: impl Iterator<Item = (usize, &'s StableSegment)>,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
        offset_tracker: &mut OffsetTracker,
    ) {
        let mut from = 0;
        for (at, part) in settled {
            let Some(range) = part.find(text, at).filter(|range| from <= range.start) else {
                continue;
            };
            self.found(text, from..range.start, memory, ids, offset_tracker);
            if offset_tracker.next() < range.end {
                offset_tracker.again(&part.sources, ids.len(), at);
            }
            ids.extend_from_slice(&part.ids);
            from = range.end;
        }
        self.found(text, from..text.len(), memory, ids, offset_tracker);
    }

    /// Appends the ids of a part of `text`, after finding the added tokens in it.
    fn found(
        &self,
        text: &str,
        part: Range<usize>,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
        offset_tracker: &mut OffsetTracker,
    ) {
        let mut from = part.start;
        if !self.raw.is_empty() {
            for found in self.raw.matches(&text[part.clone()]) {
                let range = part.start + found.range.start..part.start + found.range.end;
                self.gap(text, from..range.start, memory, ids, offset_tracker);
                from = range.end;
                offset_tracker.token(ids.len(), range);
                ids.push(found.id);
            }
        }
        self.gap(text, from..part.end, memory, ids, offset_tracker);
    }

    /// The normalizer of a text between two added tokens; `None` if the text does not need it.
    fn normalizer_of(&self, text: &str) -> Option<&Normalizer> {
        let seldom = self.seldom.as_ref();
        self.normalizer.as_ref().filter(|_| seldom.is_none_or(|it| it.is_in(text)))
    }

    /// Appends the ids of the text between two added tokens: it is normalized, and searched again for added
    /// tokens.
    fn gap(
        &self,
        text: &str,
        gap: Range<usize>,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
        offset_tracker: &mut OffsetTracker,
    ) {
        if gap.is_empty() {
            return;
        }
        let known = self.normalizer_of(&text[gap.clone()]);
        let origin = SourceRanges { sources: None };
        if known.is_none() && self.seldom.is_some() {
            let mut out = EncodingOutput { ids, offset_tracker, origin };
            let bytes = &text.as_bytes()[..gap.end];
            return self.encode_stretch(bytes, gap.start, false, memory, &mut out);
        }
        let normalized = known.and_then(|normalizer| {
            normalizer.normalize(&text[gap.clone()], gap.start, offset_tracker.wants_sources())
        });
        let Some(normalized) = normalized else {
            return self.normalized_gap(
                &text[..gap.end],
                gap.start,
                origin,
                memory,
                ids,
                offset_tracker,
            );
        };
        if normalized.text.len() > LONGEST_NORMALIZED {
            let (what, bytes) = ("it, when it is normalized,", normalized.text.len());
            memory.refused = Some(Error::too_long(what, bytes, LONGEST_NORMALIZED));
            return;
        }
        let known = offset_tracker.wants_sources();
        if !known {
            offset_tracker.lose();
        }
        if offset_tracker.is_lost() {
            return;
        }
        let origin = SourceRanges { sources: known.then_some(normalized.sources.as_slice()) };
        self.normalized_gap(&normalized.text, 0, origin, memory, ids, offset_tracker);
    }

    /// Appends the ids of `text[start..]`, which is normalized.
    fn normalized_gap(
        &self,
        text: &str,
        start: usize,
        origin: SourceRanges<'_>,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
        offset_tracker: &mut OffsetTracker,
    ) {
        let mut from = start;
        if !self.normalized.is_empty() {
            for found in self.normalized.matches(&text[start..]) {
                let range = start + found.range.start..start + found.range.end;
                self.stretch(text, from..range.start, origin, memory, ids, offset_tracker);
                from = range.end;
                offset_tracker.token(ids.len(), origin.of(range.start, range.end));
                ids.push(found.id);
            }
        }
        self.stretch(text, from..text.len(), origin, memory, ids, offset_tracker);
    }

    fn stretch(
        &self,
        text: &str,
        range: Range<usize>,
        origin: SourceRanges<'_>,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
        offset_tracker: &mut OffsetTracker,
    ) {
        if range.start >= range.end {
            return;
        }
        if self.prefix_space && !text[range.clone()].starts_with(' ') {
            let Some(spaced) = SpacedText::new(text, range, origin, offset_tracker) else { return };
            let origin = SourceRanges { sources: spaced.sources.as_deref() };
            let bytes = spaced.text.as_bytes();
            let mut out = EncodingOutput { ids, offset_tracker, origin };
            self.encode_stretch(bytes, 0, true, memory, &mut out);
            return;
        }
        let bytes = &text.as_bytes()[..range.end];
        let (normalized, mut out) =
            (self.seldom.is_some(), EncodingOutput { ids, offset_tracker, origin });
        self.encode_stretch(bytes, range.start, normalized, memory, &mut out);
    }

    /// Appends the ids of `bytes[start..]`; if `normalized`, the model itself normalizes nothing.
    fn encode_stretch(
        &self,
        bytes: &[u8],
        start: usize,
        normalized: bool,
        memory: &mut ThreadMemory,
        out: &mut EncodingOutput<'_>,
    ) {
        match &self.model {
            CompiledModel::ByteLevel(model) => batch::encode(model, bytes, start, memory, out),
            CompiledModel::General(model) => model.encode(bytes, start, memory, out),
            CompiledModel::Sentence(model) => model.encode(bytes, start, normalized, memory, out),
            CompiledModel::Unigram(model) => model.encode(bytes, start, memory, out),
            CompiledModel::Words(model) => batch::encode(model, bytes, start, memory, out),
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}
