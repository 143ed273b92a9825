//! The Hugging Face crate: the oracle of the tests, and the engine of every tokenizer that is not compiled.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, PostProcessorWrapper};

use crate::encoding::{Encoding, SpecialTokens};
use crate::error::{Error, Result};
use crate::loading::catch_panic::contain;
use crate::loading::components;
use crate::loading::fingerprint;
use crate::loading::load;
use crate::loading::load::malformed;

/// Bytes of the longest text that is encoded: each byte takes about 140 bytes of memory, and a million take
/// two seconds (gpt2, a text of 8 MB, a busy machine of two cores, 2026-11-23).
pub(crate) const LONGEST: usize = 1 << 25;

/// Bytes of the longest text for which comparing both engines is worth the memory.
pub const LONGEST_COMPARED: usize = 1 << 24;

/// Texts for finding the tokens around a text. Every useful tokenizer has ids for at least one of them.
const SAMPLES: [&str; 5] = ["a", "1", "the", ".", "b c"];

/// A part of the encoding of one text, or of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencePart {
    /// The text whose tokens stand here: 0 or 1; `None` for a token of the post-processor.
    pub text: Option<usize>,
    /// The id of the post-processor's token.
    pub id: u32,
    /// The type of the part's tokens (`token_type_ids`).
    pub kind: u32,
}

/// The Hugging Face tokenizer, loaded once and read by all threads.
///
/// One copy serves all threads. The BPE cache is thread-local, and the lock of the unigram model's cache is
/// only tried. Over llama3, bert, mistral-v1 and a small unigram model, two threads never waited
/// (`voluntary_ctxt_switches` in `/proc/thread-self/status`, before and after encoding 25 long texts twice)
/// and did 1.8, 1.8, 1.8 and 2.4 times the work of one by their CPU clocks, on a busy two-core machine,
/// 2026-11-21.
pub(crate) struct HuggingFaceEngine {
    engine: tokenizers::Tokenizer,
    /// The original post-processor, and an engine with it, which is made at the first call for offsets.
    original: (Option<PostProcessorWrapper>, OnceLock<tokenizers::Tokenizer>),
    /// An engine that finds no special token in a text, made at its first use.
    ordinary: OnceLock<tokenizers::Tokenizer>,
    /// True if the normalizer composes letters and marks, so that source ranges have to be corrected.
    composes: bool,
    special_tokens: Vec<String>,
    /// The largest id, cached because finding it copies the vocabulary.
    largest_id: OnceLock<Option<u32>>,
    fingerprint: String,
}

impl fmt::Debug for HuggingFaceEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl HuggingFaceEngine {
    pub(crate) fn from_json(json: &str) -> Result<Self> {
        let mut value = load::parse(json)?;
        load::check(&mut value)?;
        let engine = build(&value)?;
        check_added_tokens(&value, &engine)?;
        Ok(Self::new(&value["model"], engine))
    }

    /// Wraps a finished engine; `model` is the `model` object that it was built from.
    pub(crate) fn new(model: &Value, mut engine: tokenizers::Tokenizer) -> Self {
        let original = engine.get_post_processor().cloned();
        engine.with_post_processor(original.clone().map(keep_offsets));
        let mut special_tokens: Vec<String> = engine
            .get_added_tokens_decoder()
            .into_values()
            .filter(|token| token.special)
            .map(|token| token.content)
            .collect();
        special_tokens.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        let fingerprint = fingerprint::of_engine(model, &engine);
        let composes = engine.get_normalizer().is_some_and(composes);
        Self {
            engine,
            original: (original, OnceLock::new()),
            ordinary: OnceLock::new(),
            composes,
            special_tokens,
            largest_id: OnceLock::new(),
            fingerprint,
        }
    }

    pub(crate) fn encode(
        &self,
        text: &str,
        spans: &[Range<usize>],
        special: SpecialTokens,
        out: &mut Encoding,
    ) -> Result<()> {
        check_length(text)?;
        let add = special == SpecialTokens::Add;
        let encoding = guard(|| {
            if spans.is_empty() {
                self.engine.encode_fast(text, add)
            } else {
                self.engine.encode(text, add)
            }
        })
        .map_err(|reason| Error::Encode { reason })?;
        let start = out.ids.len();
        out.ids.extend_from_slice(encoding.get_ids());
        if !spans.is_empty() {
            let mut sources = sources(&encoding, start);
            if self.composes {
                mend(&mut sources, text);
            }
            touch(&sources, spans, start + encoding.len(), &mut out.touched);
        }
        Ok(())
    }

    /// Appends the ids of `text` to `ids`, and the range of characters that each comes from to `offsets`.
    pub(crate) fn encode_with_offsets(
        &self,
        text: &str,
        special: SpecialTokens,
        ids: &mut Vec<u32>,
        offsets: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        check_length(text)?;
        let engine = self.original.1.get_or_init(|| {
            let mut engine = self.engine.clone();
            engine.with_post_processor(self.original.0.clone());
            engine
        });
        let encoding = guard(|| engine.encode_char_offsets(text, special == SpecialTokens::Add))
            .map_err(|reason| Error::Encode { reason })?;
        ids.extend_from_slice(encoding.get_ids());
        offsets.extend(encoding.get_offsets().iter().map(|(start, end)| *start..*end));
        Ok(())
    }

    /// Appends the ids of `text` as ordinary text, in which no special token is found.
    pub(crate) fn encode_ordinary(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        check_length(text)?;
        let engine = self.ordinary.get_or_init(|| {
            let mut engine = self.engine.clone();
            engine.set_encode_special_tokens(true);
            engine
        });
        let encoding =
            guard(|| engine.encode_fast(text, false)).map_err(|reason| Error::Encode { reason })?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// The parts of the encoding of one text, or of two.
    pub(crate) fn frame(&self, texts: usize, special: SpecialTokens) -> Result<Vec<SequencePart>> {
        parts(&self.engine, texts, special)
    }

    pub(crate) fn token_to_id(&self, token: &str) -> Option<u32> {
        self.engine.token_to_id(token)
    }

    pub(crate) fn id_to_token(&self, id: u32) -> Option<String> {
        self.engine.id_to_token(id)
    }

    pub(crate) fn decode(&self, ids: &[u32]) -> Result<String> {
        guard(|| self.engine.decode(ids, false)).map_err(|reason| Error::Encode { reason })
    }

    /// Describes each component, with its name.
    pub(crate) fn components(&self) -> Vec<(&'static str, String)> {
        let mut engine = self.engine.clone();
        engine.with_post_processor(self.original.0.clone());
        components::describe(&engine)
    }

    pub(crate) fn vocab_size(&self) -> usize {
        self.engine.get_vocab_size(true)
    }

    /// The largest id of a token; `None` without tokens.
    pub(crate) fn largest_id(&self) -> Option<u32> {
        *self.largest_id.get_or_init(|| self.engine.get_vocab(true).into_values().max())
    }

    pub(crate) fn special_tokens(&self) -> &[String] {
        &self.special_tokens
    }

    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Refuses a text of more than [`LONGEST`] bytes.
fn check_length(text: &str) -> Result<()> {
    if text.len() <= LONGEST {
        return Ok(());
    }
    Err(Error::too_long("the reference engine is used, and the text", text.len(), LONGEST))
}

/// The parts of the encoding of one text, or of two, by a tokenizer with this post-processor: a model of one token is
/// enough to see the tokens around texts.
pub(crate) fn frame(
    post_processor: &Value,
    texts: usize,
    special: SpecialTokens,
) -> Result<Vec<SequencePart>> {
    let model = json!({ "type": "WordLevel", "vocab": { SAMPLES[0]: 0 }, "unk_token": SAMPLES[0] });
    let engine = build(&json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": null,
        "post_processor": post_processor,
        "decoder": null,
        "model": model,
    }))?;
    parts(&engine, texts, special)
}

/// The parts of the encoding of one text, or of two.
fn parts(
    engine: &tokenizers::Tokenizer,
    texts: usize,
    special: SpecialTokens,
) -> Result<Vec<SequencePart>> {
    for sample in SAMPLES {
        let add = special == SpecialTokens::Add;
        let encoding = guard(|| match texts {
            1 => engine.encode(sample, add),
            _ => engine.encode((sample, sample), add),
        })
        .map_err(|reason| Error::Encode { reason })?;
        let mut parts: Vec<SequencePart> = Vec::new();
        let sequences = encoding.get_sequence_ids();
        let tokens = encoding.get_ids().iter().zip(encoding.get_type_ids()).zip(sequences);
        for ((id, kind), text) in tokens {
            let part = SequencePart { text, id: if text.is_some() { 0 } else { *id }, kind: *kind };
            if text.is_none() || parts.last() != Some(&part) {
                parts.push(part);
            }
        }
        let seen = |text: usize| parts.iter().filter(|part| part.text == Some(text)).count();
        if (0..texts).all(|text| seen(text) == 1) {
            return Ok(parts);
        }
    }
    let reason = "the post-processor repeats a text, or leaves one out".to_owned();
    Err(Error::Encode { reason })
}

/// Builds the engine from a checked `tokenizer.json`.
///
/// The value is passed as it is: printing and parsing it again could change the last bit of a score.
pub(crate) fn build(value: &Value) -> Result<tokenizers::Tokenizer> {
    guard(|| tokenizers::Tokenizer::deserialize(value))
        .map_err(|reason| Error::Malformed { file: load::FILE.to_owned(), reason })
}

/// Runs code of the engine; its error or the message of its panic becomes the reason.
pub(crate) fn guard<T, E: fmt::Display>(
    run: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, String> {
    // No state that a panic could leave half-written is read again. At loading the value is dropped; encoding
    // writes only to the caches of the engine, which it skips when they are poisoned.
    match contain(run) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(message) => Err(format!("the tokenizers crate panicked: {message}")),
    }
}

/// Refuses added tokens with which the engine would not encode as the file says.
pub(crate) fn check_added_tokens(value: &Value, engine: &tokenizers::Tokenizer) -> Result<()> {
    check_added_ids(value, engine)?;
    check_empty_tokens(engine)
}

/// Refuses tokens among which the crate's search never ends, so that it takes all memory: one that the normalizer
/// removes entirely, beside one of several characters. A text that ends with the beginning of the longer one has that
/// effect.
fn check_empty_tokens(engine: &tokenizers::Tokenizer) -> Result<()> {
    let Some(normalizer) = engine.get_normalizer() else { return Ok(()) };
    let (mut empty, mut long) = (None, None);
    for token in engine.get_added_tokens_decoder().into_values().filter(|it| it.normalized) {
        let mut text = NormalizedString::from(token.content.as_str());
        if normalizer.normalize(&mut text).is_err() {
            continue;
        }
        match text.get().chars().count() {
            0 => empty = empty.max(Some(token.content)),
            1 => {}
            _ => long = long.max(Some(token.content)),
        }
    }
    match (empty, long) {
        (Some(empty), Some(long)) => Err(malformed(
            "added_tokens",
            format!(
                "the normalizer leaves nothing of {empty:?}; beside {long:?}, the tokenizers crate does not end on \
                 some texts. Take one of them out, or write it with `\"normalized\": false`"
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses a file whose ids of added tokens the engine would change: then the file means another tokenizer.
fn check_added_ids(value: &Value, engine: &tokenizers::Tokenizer) -> Result<()> {
    let tokens = value.get("added_tokens").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (index, token) in tokens.iter().enumerate() {
        let (content, id) = (token["content"].as_str().unwrap_or_default(), token["id"].as_u64());
        let engine_id = engine.token_to_id(content);
        if engine_id.map(u64::from) != id {
            return Err(malformed(
                &format!("added_tokens[{index}].id"),
                format!(
                    "`{content}` is written with the id {}, but its place gives it {}",
                    id.unwrap_or_default(),
                    engine_id.map_or_else(|| "none".to_owned(), |id| id.to_string()),
                ),
            ));
        }
    }
    Ok(())
}

/// Turns off `trim_offsets`, which removes spaces from the source ranges and changes no id.
fn keep_offsets(processor: PostProcessorWrapper) -> PostProcessorWrapper {
    match processor {
        PostProcessorWrapper::ByteLevel(step) => {
            PostProcessorWrapper::ByteLevel(step.trim_offsets(false))
        }
        PostProcessorWrapper::Roberta(step) => {
            PostProcessorWrapper::Roberta(step.trim_offsets(false))
        }
        PostProcessorWrapper::Sequence(mut steps) => {
            for step in steps.as_mut() {
                *step = keep_offsets(step.clone());
            }
            PostProcessorWrapper::Sequence(steps)
        }
        other => other,
    }
}

/// The source ranges of the tokens of the text. The tokens of the post-processor have none.
fn sources(encoding: &tokenizers::Encoding, start: usize) -> Vec<EncodedRange> {
    encoding
        .get_offsets()
        .iter()
        .zip(encoding.get_special_tokens_mask())
        .enumerate()
        .filter(|(_, (offsets, mask))| **mask == 0 && offsets.0 < offsets.1)
        .map(|(index, (offsets, _))| EncodedRange {
            position: start + index,
            range: offsets.0..offsets.1,
        })
        .collect()
}

/// True if a normalizer composes letters and marks (NFC, NFKC).
fn composes(normalizer: &NormalizerWrapper) -> bool {
    match normalizer {
        NormalizerWrapper::NFC(_) | NormalizerWrapper::NFKC(_) => true,
        NormalizerWrapper::Sequence(steps) => steps.as_ref().iter().any(composes),
        _ => false,
    }
}

/// Extends the source range of composed letters.
///
/// The engine gives `é` the range of its `e` alone, and loses the mark. So the text after a token is added to
/// its range if it belongs to no other token and contains no whitespace.
fn mend(sources: &mut [EncodedRange], text: &str) {
    let mut following: Option<(Range<usize>, usize)> = None;
    for source in sources.iter_mut().rev() {
        let reported = source.range.clone();
        let end = match &following {
            Some((range, end)) if *range == reported => *end,
            Some((range, _)) => range.start,
            None => text.len(),
        };
        let gap = text.get(reported.end..end).unwrap_or_default();
        if !gap.contains(char::is_whitespace) && reported.end < end {
            source.range.end = end;
        }
        following = Some((reported, source.range.end));
    }
}

/// Appends, for each span, the tokens whose source range overlaps it.
///
/// Source ranges can go back (a normalizer that reorders combining marks), so both bounds are running
/// extremes: a token before `low` ends too early, a token after `high` begins too late, and only the tokens
/// between them are compared.
fn touch(
    sources: &[EncodedRange],
    spans: &[Range<usize>],
    nothing: usize,
    touched: &mut Vec<Range<usize>>,
) {
    let mut latest_end = Vec::with_capacity(sources.len());
    let mut end = 0;
    for source in sources {
        end = end.max(source.range.end);
        latest_end.push(end);
    }
    let mut earliest_start = vec![0; sources.len()];
    let mut begin = usize::MAX;
    for (source, earliest) in sources.iter().zip(&mut earliest_start).rev() {
        begin = begin.min(source.range.start);
        *earliest = begin;
    }
    for span in spans {
        let low = latest_end.partition_point(|end| *end <= span.start);
        let high = earliest_start.partition_point(|begin| *begin < span.end);
        let overlaps =
            |source: &&EncodedRange| source.range.start < span.end && span.start < source.range.end;
        let near = sources.get(low..high).unwrap_or_default();
        let first = near.iter().find(overlaps);
        let last = near.iter().rfind(overlaps);
        touched.push(match (first, last) {
            (Some(first), Some(last)) if span.start < span.end => first.position..last.position + 1,
            _ => nothing..nothing,
        });
    }
}

/// A token's position in the ids, and its byte range in the text.
struct EncodedRange {
    position: usize,
    range: Range<usize>,
}
