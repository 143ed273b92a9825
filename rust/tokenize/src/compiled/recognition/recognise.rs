//! Chooses a compiled engine for a tokenizer's description, or names the component that is not supported.

use std::sync::Arc;

use serde_json::{Value, json};

use super::models;
use super::tokenizer_file::{UNIGRAM, WORD_LEVEL, WORD_PIECE, WrittenModel};
use crate::added::{AddedToken, ContainsAny, Matcher};
use crate::compiled::compiled_tokenizer::{Compiled, CompiledModel};
use crate::compiled::engines::general::GeneralEngine;
use crate::compiled::engines::space_prefix::{META_CHARACTER, SpacePrefix};
use crate::compiled::normalizers::bert::{Bert, bert};
use crate::compiled::normalizers::chain::Chain;
use crate::compiled::normalizers::compose::Composer;
use crate::compiled::normalizers::normalize::Normalizer;
use crate::compiled::post_processor::PostProcessorTemplate;
use crate::compiled::pre_tokenizer;
use crate::compiled::pre_tokenizer::ByteLevelPreTokenizer;

/// The parts of a tokenizer that decide the ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description<'a> {
    /// `normalizer` of `tokenizer.json`.
    pub(crate) normalizer: &'a Value,
    /// `pre_tokenizer` of `tokenizer.json`.
    pub(crate) pre_tokenizer: &'a Value,
    /// `post_processor` of `tokenizer.json`.
    pub(crate) post_processor: &'a Value,
    /// `added_tokens` of `tokenizer.json`, with the ids that the engine gives them.
    pub(crate) added_tokens: &'a [AddedToken],
    /// `model` of `tokenizer.json`.
    pub(crate) model: &'a WrittenModel<'a>,
}

/// Compiles the tokenizer; the error names the component that is not supported.
///
/// The description must be one that the reference accepts.
pub(crate) fn recognise(description: &Description<'_>) -> Result<Compiled, String> {
    let template = PostProcessorTemplate::recognise(description.post_processor)
        .ok_or_else(|| named("post_processor", description.post_processor))?;
    let fast = match description.model.kind.as_str() {
        WORD_PIECE => words(description, template.clone()),
        UNIGRAM => unigram(description, template.clone()),
        WORD_LEVEL => Err("model WordLevel".to_owned()),
        _ => bpe(description, template.clone()),
    };
    let compiled = fast.or_else(|_| general(description, template))?;
    Ok(Compiled { varied: varied(description), ..compiled })
}

/// The ids of tokens that the reference writes as the normalized text has them, and not as they are listed: the unknown
/// token of a unigram model, and added tokens that match text that a normalizer has changed.
fn varied(description: &Description<'_>) -> Vec<u32> {
    let normalizes = !description.normalizer.is_null();
    let matches = |token: &&AddedToken| normalizes && token.normalized;
    let added = description.added_tokens.iter().filter(matches);
    let is_unigram = description.model.kind == UNIGRAM;
    let unknown = description.model.unk_id.filter(|_| is_unigram);
    let unknown = unknown.and_then(|id| u32::try_from(id).ok());
    added.map(|token| token.id).chain(unknown).collect()
}

/// Compiles a tokenizer with any steps and any model.
fn general(
    description: &Description<'_>,
    template: PostProcessorTemplate,
) -> Result<Compiled, String> {
    let normalizer = any_normalizer(description.normalizer)?;
    let stages = pre_tokenizer::stages(description.pre_tokenizer, normalizer.is_some())?;
    let (raw, matched) = added(description.added_tokens, normalizer.as_ref())?;
    let mut model = GeneralEngine::new(stages, models::any(description.model)?);
    let mut normalizer = normalizer;
    if matched.is_empty() {
        (model, normalizer) = model.normalizing(normalizer);
    }
    let model = CompiledModel::General(model);
    Ok(Compiled { raw, normalized: matched, normalizer, ..Compiled::new(model, template) })
}

/// Compiles a BPE tokenizer.
fn bpe(description: &Description<'_>, template: PostProcessorTemplate) -> Result<Compiled, String> {
    let Description { normalizer, pre_tokenizer, model, .. } = *description;
    if let Some(way) = pre_tokenizer::spaces(normalizer, pre_tokenizer) {
        let known = any_normalizer(normalizer)?;
        let (raw, normalized) = added(description.added_tokens, known.as_ref())?;
        // The text has to be normalized only if some added tokens match normalized text.
        let known = known.filter(|_| !normalized.is_empty());
        let seldom = known.as_ref().and_then(|known| cores(description.added_tokens, known));
        if known.is_some() && seldom.is_none() {
            return Err("an added token of blanks that matches normalized text".to_owned());
        }
        let model = CompiledModel::Sentence(models::sentence(model, way)?);
        let whole =
            Compiled { raw, normalized, normalizer: known, ..Compiled::new(model, template) };
        return Ok(Compiled { seldom, ..whole });
    }
    let normalizer = any_normalizer(normalizer)?;
    let (raw, matched) = added(description.added_tokens, normalizer.as_ref())?;
    if let Some(way) = pre_tokenizer::spaces(&Value::Null, pre_tokenizer)
        && way.prefix != SpacePrefix::First
    {
        // `Metaspace` turns spaces into `▁` behind any normalizer.
        let model = CompiledModel::Sentence(models::sentence(model, way)?);
        let whole = Compiled::new(model, template);
        return Ok(Compiled { raw, normalized: matched, normalizer, ..whole });
    }
    let ByteLevelPreTokenizer { splitter, prefix_space } = pre_tokenizer::cutting(pre_tokenizer)?;
    let model = CompiledModel::ByteLevel(models::byte_level(model, splitter)?);
    let whole = Compiled { raw, normalized: matched, normalizer, ..Compiled::new(model, template) };
    Ok(Compiled { prefix_space, ..whole })
}

/// Compiles a unigram tokenizer.
fn unigram(
    description: &Description<'_>,
    template: PostProcessorTemplate,
) -> Result<Compiled, String> {
    let normalizer = any_normalizer(description.normalizer)?;
    let (cutting, prefix) = pre_tokenizer::words(description.pre_tokenizer)?;
    if prefix == SpacePrefix::First && normalizer.is_some() {
        return Err(
            "pre_tokenizer Metaspace with prepend_scheme `first` after a normalizer".to_owned()
        );
    }
    let (raw, matched) = added(description.added_tokens, normalizer.as_ref())?;
    let model = CompiledModel::Unigram(models::unigram(description.model, cutting, prefix)?);
    Ok(Compiled { raw, normalized: matched, normalizer, ..Compiled::new(model, template) })
}

/// Compiles a `WordPiece` tokenizer.
fn words(
    description: &Description<'_>,
    template: PostProcessorTemplate,
) -> Result<Compiled, String> {
    let bert = only(description.normalizer, "normalizers")
        .and_then(bert)
        .ok_or_else(|| named("normalizer", description.normalizer))?;
    only(description.pre_tokenizer, "pretokenizers")
        .filter(|step| **step == json!({"type": "BertPreTokenizer"}))
        .ok_or_else(|| named("pre_tokenizer", description.pre_tokenizer))?;
    let (raw, matched) = added(description.added_tokens, Some(&Normalizer::Bert(bert)))?;
    // If some added tokens match normalized text, whole texts have to be normalized.
    let whole = !matched.is_empty();
    let normalizer = whole.then_some(Normalizer::Bert(bert));
    let of_pieces = if whole { Bert::default() } else { bert };
    let model = CompiledModel::Words(models::words(description.model, of_pieces)?);
    Ok(Compiled { raw, normalized: matched, normalizer, ..Compiled::new(model, template) })
}

/// The component itself, or the only step of a sequence.
fn only<'a>(component: &'a Value, steps: &str) -> Option<&'a Value> {
    if component["type"] != "Sequence" {
        return Some(component);
    }
    match component[steps].as_array()?.as_slice() {
        [step] => only(step, steps),
        _ => None,
    }
}

/// A component and its type, for an error.
fn named(component: &str, value: &Value) -> String {
    if value.is_null() {
        return format!("{component}: none");
    }
    format!("{component} {}", value["type"].as_str().unwrap_or("of an unknown type"))
}

/// The normalizer of whole texts; `None` if there is none.
fn any_normalizer(normalizer: &Value) -> Result<Option<Normalizer>, String> {
    if normalizer.is_null() {
        return Ok(None);
    }
    let composer = match only(normalizer, "normalizers").and_then(|step| step["type"].as_str()) {
        Some("NFC") => Some(Composer::Nfc),
        Some("NFKC") => Some(Composer::Nfkc),
        _ => None,
    };
    if let Some(composer) = composer {
        return Ok(Some(Normalizer::Composer(composer)));
    }
    let chain = Chain::new(normalizer)?;
    Ok((!chain.is_empty()).then(|| Normalizer::Chain(Arc::new(chain))))
}

/// A finder of a part of each token that matches normalized text. `None` if a token consists of blanks.
fn cores(tokens: &[AddedToken], normalizer: &Normalizer) -> Option<ContainsAny> {
    let chosen = tokens.iter().filter(|token| token.normalized);
    let normal: Vec<String> = chosen.map(|token| normalizer.normalized(&token.content)).collect();
    let core = |content: &'_ str| -> Option<String> {
        let parts = content.split([' ', META_CHARACTER]);
        parts.max_by_key(|part| part.len()).filter(|part| !part.is_empty()).map(str::to_owned)
    };
    let cores: Option<Vec<String>> = normal.iter().map(|content| core(content)).collect();
    Some(ContainsAny::new(cores?.iter().map(String::as_str)))
}

/// The matcher of the raw text and the matcher of the normalized text.
fn added(
    tokens: &[AddedToken],
    normalizer: Option<&Normalizer>,
) -> Result<(Matcher, Matcher), String> {
    let normal: Vec<String> = tokens
        .iter()
        .map(|token| match normalizer {
            Some(normalizer) if token.normalized => normalizer.normalized(&token.content),
            _ => token.content.clone(),
        })
        .collect();
    let strips = tokens.iter().any(|token| token.rstrip);
    let starts_blank = |content: &str| content.starts_with(char::is_whitespace);
    // The reference can panic if one token strips whitespace with which another token begins.
    if let Some(content) = normal.iter().find(|content| strips && starts_blank(content)) {
        return Err(format!("added token `{content}` beside a token with rstrip"));
    }
    let mut ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("added_tokens that share an id".to_owned());
    }
    let matcher = |normalized: bool| {
        let chosen = normal.iter().map(String::as_str).zip(tokens);
        Matcher::new(chosen.filter(|(_, token)| token.normalized == normalized))
            .ok_or_else(|| "added_tokens that match the same".to_owned())
    };
    Ok((matcher(false)?, matcher(true)?))
}
