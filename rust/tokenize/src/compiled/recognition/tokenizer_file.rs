//! Parses a `tokenizer.json` in one pass, and borrows its strings.
//!
//! Anything unusual gives `None`. Then the file is parsed as a JSON value by `load`, which checks every field
//! and names the one that is wrong.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokenizers::{DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper};

use crate::added::AddedToken;
use crate::loading::load::merge_pair;

/// The largest id: ids are stored as signed 32-bit integers.
const LARGEST_ID: u32 = i32::MAX as u32;

/// The type of a `WordPiece` model.
pub(in crate::compiled) const WORD_PIECE: &str = "WordPiece";

/// The type of a unigram model.
pub(in crate::compiled) const UNIGRAM: &str = "Unigram";

/// The type of a model whose tokens are whole words.
pub(in crate::compiled) const WORD_LEVEL: &str = "WordLevel";

/// A `tokenizer.json` whose model is of a known type.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct TokenizerFile<'a> {
    version: Value,
    pub(crate) added_tokens: Vec<AddedToken>,
    pub(crate) normalizer: Value,
    pub(crate) pre_tokenizer: Value,
    pub(crate) post_processor: Value,
    pub(crate) decoder: Value,
    #[serde(borrow)]
    pub(crate) model: WrittenModel<'a>,
}

/// A model with the fields of all types, as a file writes them.
#[derive(Debug, serde::Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file's own flags")]
pub(crate) struct WrittenModel<'a> {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) dropout: Option<f64>,
    #[serde(default)]
    pub(crate) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(crate) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(crate) byte_fallback: bool,
    #[serde(default)]
    pub(crate) ignore_merges: bool,
    #[serde(borrow)]
    pub(crate) vocab: WrittenVocabulary<'a>,
    #[serde(borrow, default)]
    pub(crate) merges: Option<WrittenMerges<'a>>,
    #[serde(default)]
    pub(crate) unk_token: Option<String>,
    #[serde(default)]
    pub(crate) fuse_unk: bool,
    #[serde(default)]
    pub(crate) unk_id: Option<usize>,
    #[serde(default)]
    pub(crate) max_input_chars_per_word: Option<usize>,
    /// True if every merge is known to name tokens of the vocabulary.
    #[serde(skip)]
    pub(crate) checked: bool,
}

/// Tokens and ids, in the order of the file, and scores. The id of a token in a list is its index.
#[derive(Debug)]
pub(crate) struct WrittenVocabulary<'a>(pub(crate) Vec<(Cow<'a, str>, u32)>, pub(crate) Vec<f64>);

/// The two sides of each merge.
#[derive(Debug)]
pub(crate) struct WrittenMerges<'a>(pub(crate) Vec<[Cow<'a, str>; 2]>);

/// A string, borrowed from the file where it has no escapes.
#[derive(serde::Deserialize)]
struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);

/// A merge, in either notation.
#[derive(serde::Deserialize)]
struct WrittenMerge<'a>(#[serde(borrow)] JsonText<'a>, #[serde(borrow)] JsonText<'a>);

/// A token with its score.
#[derive(serde::Deserialize)]
struct ScoredToken<'a>(#[serde(borrow)] JsonText<'a>, f64);

impl<'de: 'a, 'a> Deserialize<'de> for WrittenVocabulary<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = WrittenVocabulary<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens and ids")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some((JsonText(token), id)) = map.next_entry()? {
                    entries.push((token, id));
                }
                Ok(WrittenVocabulary(entries, Vec::new()))
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
                let (mut entries, mut scores) = (Vec::new(), Vec::new());
                while let Some(ScoredToken(JsonText(token), score)) = list.next_element()? {
                    let id = u32::try_from(entries.len()).map_err(serde::de::Error::custom)?;
                    entries.push((token, id));
                    scores.push(score);
                }
                Ok(WrittenVocabulary(entries, scores))
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for WrittenMerges<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = WrittenMerges<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("pairs of tokens")
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
                let mut merges = Vec::new();
                while let Some(WrittenMerge(JsonText(left), JsonText(right))) =
                    list.next_element()?
                {
                    merges.push([left, right]);
                }
                Ok(WrittenMerges(merges))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl<'a> TokenizerFile<'a> {
    /// Reads a file; `None` if anything about it is unusual.
    pub(crate) fn read(json: &'a str) -> Option<Self> {
        let mut file: Self = serde_json::from_str(json).ok()?;
        if file.model.kind.is_empty() {
            // Older files give no type. `load` tells apart the types that have no merges.
            "BPE".clone_into(&mut file.model.kind);
        }
        let known = file.version == "1.0"
            && is::<Option<NormalizerWrapper>>(&file.normalizer)
            && is::<Option<PreTokenizerWrapper>>(&file.pre_tokenizer)
            && is::<Option<PostProcessorWrapper>>(&file.post_processor)
            && is::<Option<DecoderWrapper>>(&file.decoder)
            && file.model.vocab.0.iter().all(|(_, id)| *id <= LARGEST_ID);
        (known && file.model.is_complete()).then_some(file)
    }
}

impl<'a> WrittenModel<'a> {
    /// True if the fields are as the model's type needs them.
    fn is_complete(&self) -> bool {
        if self.kind == UNIGRAM {
            let WrittenVocabulary(tokens, scores) = &self.vocab;
            return scores.len() == tokens.len()
                && self.unk_id.is_none_or(|id| id < tokens.len())
                && tokens.iter().all(|(token, _)| !token.is_empty())
                && scores.iter().all(|score| score.is_finite());
        }
        if !self.vocab.1.is_empty() {
            return false;
        }
        if self.kind == WORD_LEVEL {
            return self.merges.is_none() && self.unk_token.is_some();
        }
        if self.kind != WORD_PIECE {
            return self.merges.is_some();
        }
        self.merges.is_none()
            && self.dropout.is_none()
            && self.unk_token.is_some()
            && self.continuing_subword_prefix.is_some()
            && self.max_input_chars_per_word.is_some()
    }

    /// This model's tokens and merges with the options of another one.
    pub(crate) fn with_options(self, model: &Value) -> Result<Self, String> {
        let options = Self::options(model)?;
        Ok(Self { vocab: self.vocab, merges: self.merges, checked: false, ..options })
    }

    /// A model with these options and without tokens.
    fn options(model: &Value) -> Result<Self, String> {
        let kind = model["type"].as_str().unwrap_or("of an unknown type").to_owned();
        if !["BPE", WORD_PIECE, UNIGRAM, WORD_LEVEL].contains(&kind.as_str()) {
            return Err(format!("model {kind}"));
        }
        let option = |name: &str| model[name].as_str().map(str::to_owned);
        Ok(Self {
            kind,
            dropout: model["dropout"].as_f64(),
            continuing_subword_prefix: option("continuing_subword_prefix"),
            end_of_word_suffix: option("end_of_word_suffix"),
            byte_fallback: model["byte_fallback"] == true,
            ignore_merges: model["ignore_merges"] == true,
            vocab: WrittenVocabulary(Vec::new(), Vec::new()),
            merges: None,
            unk_token: option("unk_token"),
            fuse_unk: model["fuse_unk"] == true,
            unk_id: model["unk_id"].as_u64().and_then(|id| usize::try_from(id).ok()),
            max_input_chars_per_word: model["max_input_chars_per_word"]
                .as_u64()
                .and_then(|most| usize::try_from(most).ok()),
            checked: true,
        })
    }

    /// The model of a checked JSON value.
    pub(crate) fn from_value(model: &'a Value) -> Result<Self, String> {
        let options = Self::options(model)?;
        if let Some(listed) = model["vocab"].as_array() {
            let entries = listed.iter().zip(0..).map(|(entry, id)| {
                Some(((Cow::Borrowed(entry[0].as_str()?), id), entry[1].as_f64()?))
            });
            let entries: Vec<_> =
                entries.collect::<Option<_>>().ok_or("model Unigram with unknown pieces")?;
            let (tokens, scores) = entries.into_iter().unzip();
            return Ok(Self { vocab: WrittenVocabulary(tokens, scores), ..options });
        }
        let entries = model["vocab"]
            .as_object()
            .ok_or_else(|| format!("model {} without a vocab", options.kind))?;
        let entries = entries.iter().map(|(token, id)| {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            Some((Cow::Borrowed(token.as_str()), id?))
        });
        let listed = model["merges"].as_array().map_or(&[][..], Vec::as_slice);
        let merges = listed.iter().map(|merge| {
            let (left, right) = merge_pair(merge)?;
            Some([Cow::Borrowed(left), Cow::Borrowed(right)])
        });
        Ok(Self {
            vocab: WrittenVocabulary(
                entries.collect::<Option<_>>().ok_or("model with ids out of range")?,
                Vec::new(),
            ),
            merges: Some(WrittenMerges(
                merges.collect::<Option<_>>().ok_or("model BPE with unknown merges")?,
            )),
            ..options
        })
    }
}

/// True if the Hugging Face crate can read a component.
fn is<'de, T: Deserialize<'de>>(component: &'de Value) -> bool {
    T::deserialize(component).is_ok()
}
