//! A tokenizer's description to a compiled engine, or the name of the component that none is known for.

use serde_json::Value;

use super::compose::{self, Composer};
use super::file::Bpe;
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
    pub(crate) model: &'a Bpe<'a>,
}

/// Compiles the tokenizer; the error names the component that is not known.
///
/// The description must be one that the reference accepts.
pub(crate) fn recognise(description: &Description<'_>) -> Result<Compiled, String> {
    let template = Template::recognise(description.post_processor)
        .ok_or_else(|| named("post_processor", description.post_processor))?;
    let Description { normalizer, pre_tokenizer, model, .. } = *description;
    if let Some(way) = patterns::spaces(normalizer, pre_tokenizer) {
        let (raw, normalized) = added(description.added_tokens, None)?;
        if !normalized.is_empty() && !normalizer.is_null() {
            return Err("an added token that matches normalized text".to_owned());
        }
        let model = Model::Sentence(models::sentence(model, way)?);
        return Ok(Compiled { raw, normalized, composer: None, model, template });
    }
    let composer = composer(normalizer)?;
    let (raw, normalized) = added(description.added_tokens, composer)?;
    let splitter = patterns::splitter(pre_tokenizer)?;
    let model = Model::ByteLevel(models::byte_level(model, splitter)?);
    Ok(Compiled { raw, normalized, composer, model, template })
}

/// A component and its type.
fn named(component: &str, value: &Value) -> String {
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
fn added(tokens: &[AddedToken], composer: Option<Composer>) -> Result<(Matcher, Matcher), String> {
    let strips = tokens.iter().any(|token| token.rstrip);
    let begins_blank = |token: &AddedToken| token.content.starts_with(char::is_whitespace);
    // Whitespace that one token strips can be what another one begins with; then the reference can panic.
    if let Some(token) = tokens.iter().find(|token| strips && begins_blank(token)) {
        return Err(format!("added token `{}` beside a token with rstrip", token.content));
    }
    let mut ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("added_tokens that share an id".to_owned());
    }
    let normal: Vec<String> = tokens
        .iter()
        .map(|token| match composer {
            Some(composer) if token.normalized => compose::composed(composer, &token.content),
            _ => token.content.clone(),
        })
        .collect();
    let matcher = |normalized: bool| {
        let chosen = normal.iter().map(String::as_str).zip(tokens);
        Matcher::new(chosen.filter(|(_, token)| token.normalized == normalized))
            .ok_or_else(|| "added_tokens that match the same".to_owned())
    };
    Ok((matcher(false)?, matcher(true)?))
}
