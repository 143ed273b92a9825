//! A tokenizer's description to a compiled engine, or the name of the component that none is known for.

use serde_json::{Value, json};

use super::bert::Bert;
use super::compose::Composer;
use super::file::{WORD_PIECE, Written};
use super::normalize::Normalizer;
use super::template::Template;
use super::{Compiled, Model, models, patterns};
use crate::added::{AddedToken, Matcher};

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
    pub(crate) model: &'a Written<'a>,
}

/// Compiles the tokenizer; the error names the component that is not known.
///
/// The description must be one that the reference accepts.
pub(crate) fn recognise(description: &Description<'_>) -> Result<Compiled, String> {
    let template = Template::recognise(description.post_processor)
        .ok_or_else(|| named("post_processor", description.post_processor))?;
    let Description { normalizer, pre_tokenizer, model, .. } = *description;
    if model.kind == WORD_PIECE {
        return words(description, template);
    }
    if let Some(way) = patterns::spaces(normalizer, pre_tokenizer) {
        let (raw, normalized) = added(description.added_tokens, None)?;
        if !normalized.is_empty() && !normalizer.is_null() {
            return Err("an added token that matches normalized text".to_owned());
        }
        let model = Model::Sentence(models::sentence(model, way)?);
        return Ok(Compiled { raw, normalized, normalizer: None, model, template });
    }
    let normalizer = composer(normalizer)?.map(Normalizer::Composer);
    let (raw, matched) = added(description.added_tokens, normalizer)?;
    let splitter = patterns::splitter(pre_tokenizer)?;
    let model = Model::ByteLevel(models::byte_level(model, splitter)?);
    Ok(Compiled { raw, normalized: matched, normalizer, model, template })
}

/// Compiles a `WordPiece` tokenizer.
fn words(description: &Description<'_>, template: Template) -> Result<Compiled, String> {
    let bert = only(description.normalizer, "normalizers")
        .and_then(bert)
        .ok_or_else(|| named("normalizer", description.normalizer))?;
    only(description.pre_tokenizer, "pretokenizers")
        .filter(|step| **step == json!({"type": "BertPreTokenizer"}))
        .ok_or_else(|| named("pre_tokenizer", description.pre_tokenizer))?;
    let (raw, matched) = added(description.added_tokens, Some(Normalizer::Bert(bert)))?;
    // To find tokens in the normalized text, there has to be one.
    let whole = !matched.is_empty();
    let normalizer = whole.then_some(Normalizer::Bert(bert));
    let of_pieces = if whole { Bert::default() } else { bert };
    let model = Model::Words(models::words(description.model, of_pieces)?);
    Ok(Compiled { raw, normalized: matched, normalizer, model, template })
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

/// BERT's normalizer, if it has its five fields and no other.
fn bert(normalizer: &Value) -> Option<Bert> {
    let fields = normalizer.as_object()?;
    let flag = |name: &str| fields.get(name)?.as_bool();
    if fields.len() != 5 || fields.get("type")? != "BertNormalizer" {
        return None;
    }
    let lowercase = flag("lowercase")?;
    let strip = match fields.get("strip_accents")? {
        Value::Null => lowercase,
        strip => strip.as_bool()?,
    };
    let (clean, ideographs) = (flag("clean_text")?, flag("handle_chinese_chars")?);
    Some(Bert { clean, ideographs, strip, lowercase })
}

/// A component and its type.
fn named(component: &str, value: &Value) -> String {
    if value.is_null() {
        return format!("{component}: none");
    }
    format!("{component} {}", value["type"].as_str().unwrap_or("of an unknown type"))
}

fn composer(normalizer: &Value) -> Result<Option<Composer>, String> {
    if normalizer.is_null() {
        return Ok(None);
    }
    match normalizer["type"].as_str() {
        Some("NFC") => Ok(Some(Composer::Nfc)),
        Some("NFKC") => Ok(Some(Composer::Nfkc)),
        Some("Sequence") => match normalizer["normalizers"].as_array().map(Vec::as_slice) {
            Some([]) => Ok(None),
            Some([step]) => composer(step),
            Some([_, step, ..]) => Err(named("normalizer", step)),
            None => Err(named("normalizer", normalizer)),
        },
        _ => Err(named("normalizer", normalizer)),
    }
}

/// The matchers of the raw and of the normalized text.
fn added(
    tokens: &[AddedToken],
    normalizer: Option<Normalizer>,
) -> Result<(Matcher, Matcher), String> {
    let normal: Vec<String> = tokens
        .iter()
        .map(|token| match normalizer {
            Some(normalizer) if token.normalized => normalizer.normalized(&token.content),
            _ => token.content.clone(),
        })
        .collect();
    let strips = tokens.iter().any(|token| token.rstrip);
    let begins_blank = |content: &str| content.starts_with(char::is_whitespace);
    // Whitespace that one token strips can be what another one begins with; then the reference can panic.
    if let Some(content) = normal.iter().find(|content| strips && begins_blank(content)) {
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
