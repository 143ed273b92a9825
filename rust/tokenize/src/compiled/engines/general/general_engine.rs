//! [`GeneralEngine`]: applies the steps to a text, or to the words that no cache has, and encodes the pieces.

use super::piece_model::{ListedModel, PieceModel};
use super::pre_tokenized::{PreTokenized, SourceText};
use super::pre_tokenizer_stage::PreTokenizerStage;
use super::word_cuts::WordEnds;
use crate::compiled::batch;
use crate::compiled::batch::EncodingOutput;
use crate::compiled::cutting::windows;
use crate::compiled::normalizers::normalize::Normalizer;
use crate::compiled::normalizers::normalized::Normalized;
use crate::compiled::piece_encoder::PieceEncoder;
use crate::compiled::spans::{OffsetTracker, SourceRanges};
use crate::compiled::thread_caches::ThreadMemory;
use crate::error::Error;
use crate::pieces::{MOST, PieceKey};
use crate::split::SplitCursor;

/// Bytes of the longest text that a stage rewrites: a stage can make the text five times as long, and
/// positions are 32 bits.
const LONGEST_REWRITTEN: usize = 1 << 29;

/// A tokenizer with any steps and any model, shared by all threads.
pub(crate) struct GeneralEngine {
    stages: Vec<PreTokenizerStage>,
    piece_model: PieceModel,
    /// The places at which a text is cut into words before any step, if it is.
    words: Option<WordEnds>,
    /// The normalizer of words.
    normalizer: Option<Normalizer>,
}

impl GeneralEngine {
    pub(crate) fn new(stages: Vec<PreTokenizerStage>, piece_model: PieceModel) -> Self {
        Self { stages, piece_model, words: None, normalizer: None }
    }

    /// Makes the model cut texts into words and normalize each word, if that gives the same ids; gives the
    /// normalizer back if it does not.
    pub(crate) fn normalizing(
        mut self,
        normalizer: Option<Normalizer>,
    ) -> (Self, Option<Normalizer>) {
        let keeps = normalizer.as_ref().is_none_or(Normalizer::keeps_words)
            && !self.stages.iter().any(PreTokenizerStage::asks_place);
        self.words = self.stages.first().filter(|_| keeps).and_then(WordEnds::new);
        if self.words.is_none() {
            return (self, normalizer);
        }
        self.normalizer = normalizer;
        (self, None)
    }

    /// The normalizer of words.
    pub(crate) fn normalizer(&self) -> Option<&Normalizer> {
        self.normalizer.as_ref()
    }

    /// True if the source ranges of tokens can be recorded without those of the whole text.
    pub(crate) fn records_in_place(&self) -> bool {
        self.words.is_some() && self.normalizer.is_none()
    }

    /// Appends the ids of `text[start..]`, a stretch between two added tokens.
    pub(crate) fn encode(
        &self,
        text: &[u8],
        start: usize,
        memory: &mut ThreadMemory,
        out: &mut EncodingOutput<'_>,
    ) {
        if let Some(ends) = &self.words {
            return batch::encode(&CutWords { general: self, ends }, text, start, memory, out);
        }
        let wants_source_ranges = out.offset_tracker.wants_sources();
        if !wants_source_ranges {
            out.offset_tracker.lose();
        }
        if out.offset_tracker.is_lost() {
            return;
        }
        let stretch = SourceText { text, start, origin: out.origin, wants_source_ranges };
        let mut written = std::mem::take(&mut memory.pre_tokenized);
        if !self.pre_tokenize(&stretch, &mut written, memory) {
            return;
        }
        if let Some(begin) = written.close(&stretch) {
            let model = ListedModel { piece_model: &self.piece_model, ends: written.ends() };
            let mut out = EncodingOutput {
                ids: out.ids,
                offset_tracker: out.offset_tracker,
                origin: written.origin(&stretch),
            };
            let end = written.ends().last().map_or(begin, |end| *end as usize);
            batch::encode_listed(&model, &written.text(&stretch)[..end], begin, memory, &mut out);
        }
        memory.pre_tokenized = written;
    }

    /// Applies all stages to a stretch, and says whether encoding goes on.
    fn pre_tokenize(
        &self,
        stretch: &SourceText<'_>,
        written: &mut PreTokenized,
        memory: &mut ThreadMemory,
    ) -> bool {
        written.begin(stretch);
        for stage in &self.stages {
            let bytes = written.text(stretch).len();
            if stage.rewrites() && bytes > LONGEST_REWRITTEN {
                memory.refused = Some(Error::too_long("it", bytes, LONGEST_REWRITTEN));
                return false;
            }
            if memory.is_stopped() {
                return false;
            }
            written.apply(stage, stretch);
        }
        true
    }
}

/// Bytes of the longest word that the caches hold; of a longer one they hold the pieces.
const LONGEST_KEPT: usize = 32;

/// A model, with the places at which texts are cut into words.
///
/// The caches hold words with the whitespace before them. Only a word that no cache has is normalized, goes through the
/// steps, and is encoded.
struct CutWords<'a> {
    general: &'a GeneralEngine,
    ends: &'a WordEnds,
}

impl CutWords<'_> {
    /// The normalized form of a word; the word itself if it does not change.
    fn stretch<'a>(normalized: Option<&'a Normalized>, word: SourceText<'a>) -> SourceText<'a> {
        let Some(Normalized { text, sources }) = normalized else { return word };
        let origin =
            SourceRanges { sources: word.wants_source_ranges.then_some(sources.as_slice()) };
        SourceText {
            text: text.as_bytes(),
            start: 0,
            origin,
            wants_source_ranges: word.wants_source_ranges,
        }
    }

    /// Appends the ids of a piece of a word.
    fn piece(&self, piece: &[u8], memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        if self.general.piece_model.is_quick() {
            return self.general.piece_model.encode(piece, false, memory, ids);
        }
        let start = ids.len();
        // In other engines this bit marks parts of pieces; here it marks pieces of words.
        let short = PieceKey::of(piece).map(PieceKey::part);
        let found = short.and_then(|key| memory.short.get(key));
        if let Some(found) = found.filter(|found| found.is_whole()) {
            ids.extend(found.ids());
            return;
        }
        let is_long = short.is_none() || found.is_some();
        if let Some(known) = is_long.then(|| memory.long.get(piece, true)).flatten() {
            ids.extend_from_slice(known);
            return;
        }
        self.general.piece_model.encode(piece, false, memory, ids);
        let piece_ids = &ids[start..];
        if let Some(key) = short.filter(|_| found.is_none()) {
            memory.short.insert(key, piece_ids);
        }
        if short.is_none() || piece_ids.len() > MOST {
            memory.long.insert(piece, true, piece_ids);
        }
    }
}

impl PieceEncoder for CutWords<'_> {
    #[inline]
    fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
        windows::fill(self.ends, text, cursor, ends)
    }

    fn keeps(&self, length: usize) -> bool {
        length <= LONGEST_KEPT
    }

    fn miss(&self, word: &[u8], _: bool, memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        let text = std::str::from_utf8(word).expect("a text is cut between characters");
        let normalized =
            self.general.normalizer.as_ref().and_then(|it| it.normalize(text, 0, false));
        let word = SourceText {
            text: word,
            start: 0,
            origin: SourceRanges { sources: None },
            wants_source_ranges: false,
        };
        let stretch = Self::stretch(normalized.as_ref(), word);
        let mut written = std::mem::take(&mut memory.pre_tokenized);
        if self.general.pre_tokenize(&stretch, &mut written, memory) {
            let text = written.text(&stretch);
            for (start, end) in written.pieces() {
                self.piece(&text[start..end], memory, ids);
            }
        }
        memory.pre_tokenized = written;
    }

    fn record_offsets(
        &self,
        text: &[u8],
        begin: usize,
        mut position: usize,
        _: &[u32],
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        let word = std::str::from_utf8(&text[begin..]).expect("a text is cut between characters");
        let normalized =
            self.general.normalizer.as_ref().and_then(|it| it.normalize(word, begin, true));
        let word = SourceText { text, start: begin, origin, wants_source_ranges: true };
        let stretch = Self::stretch(normalized.as_ref(), word);
        let mut written = PreTokenized::default();
        written.begin(&stretch);
        for stage in &self.general.stages {
            written.apply(stage, &stretch);
        }
        let origin = written.origin(&stretch);
        for (start, end) in written.pieces() {
            // No piece of a word is encoded in parts, so a piece that is a token is that token.
            position = self.general.piece_model.record_ranges(
                &written.text(&stretch)[..end],
                start,
                1,
                position,
                origin,
                offset_tracker,
            );
        }
    }
}
