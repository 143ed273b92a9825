//! The classes that build their own engine from a vocabulary, whatever the rest of `tokenizer.json` says.
//!
//! Each class has one [`Recipe`], in the file of its model or task: its default tokens, its engine, and its
//! post-processor.

mod bpe;
mod esmc;
mod generation;
mod languages;
mod luke;
mod speech;
mod translation;
mod unigram;
mod vision;
mod wordpiece;

use serde_json::{Value, json};

use super::backend::{Backend, PairTemplate, TemplatePiece};
use super::settings::Settings;
use super::token::{AddedToken, Token};
use super::vocabulary::Vocabulary;
use crate::error::Result;
pub(super) use languages::{MBART, MBART50};

/// The steps by which a class makes a tokenizer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    /// The special tokens that its signature names, with their defaults, in the order of the signature.
    pub(super) defaults: &'static [(&'static str, Option<&'static str>)],
    /// Changes the arguments before anything else.
    pub(super) prepare: fn(&mut Settings) -> Result<()>,
    /// Builds the components, as a `tokenizer.json` without added tokens and post-processor.
    pub(super) build: fn(&Settings, &Vocabulary<'_>) -> Result<Value>,
    /// Changes the tokenizer after the common initializer.
    pub(super) finish: fn(&mut Backend, &Settings) -> Result<()>,
}

/// The special tokens of `RoBERTa` and of the classes that took them over.
const ROBERTA_TOKENS: &[(&str, Option<&str>)] = &[
    ("bos_token", Some("<s>")),
    ("eos_token", Some("</s>")),
    ("sep_token", Some("</s>")),
    ("cls_token", Some("<s>")),
    ("unk_token", Some("<unk>")),
    ("pad_token", Some("<pad>")),
    ("mask_token", Some("<mask>")),
];

/// The recipe of a class, if fastpack supports the class.
pub(super) fn recipe(class: &str) -> Option<Recipe> {
    let rooms = [
        bpe::recipe,
        wordpiece::recipe,
        unigram::recipe,
        translation::recipe,
        speech::recipe,
        vision::recipe,
        generation::recipe,
        luke::recipe,
        esmc::recipe,
    ];
    rooms.into_iter().find_map(|recipe| recipe(class))
}

impl Recipe {
    /// The settings, with the class's own arguments first.
    pub(super) fn arguments(&self, settings: Settings) -> Result<Settings> {
        let defaults: Vec<(&str, Value)> = self
            .defaults
            .iter()
            .map(|(name, default)| (*name, default.map_or(Value::Null, Value::from)))
            .collect();
        let mut settings = settings.with_defaults(&defaults);
        (self.prepare)(&mut settings)?;
        Ok(settings)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "stands in for a step that can fail")]
fn as_given(_: &mut Settings) -> Result<()> {
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "stands in for a step that can fail")]
fn nothing_more(_: &mut Backend, _: &Settings) -> Result<()> {
    Ok(())
}

/// The whole `tokenizer.json`, for classes without an initializer of their own.
#[expect(clippy::unnecessary_wraps, reason = "stands in for a step that can fail")]
fn as_in_file(_: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    Ok(vocabulary.tokenizer.clone())
}

/// A `tokenizer.json` with these components, without added tokens and post-processor.
pub(super) fn tokenizer(
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    model: Value,
) -> Value {
    let parts = [
        ("version", json!("1.0")),
        ("added_tokens", json!([])),
        ("normalizer", normalizer),
        ("pre_tokenizer", pre_tokenizer),
        ("post_processor", Value::Null),
        ("decoder", decoder),
        ("model", model),
    ];
    Value::Object(parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect())
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

fn replace(pattern: &Value, content: &str) -> Value {
    json!({"type": "Replace", "pattern": pattern, "content": content})
}

fn regex(pattern: &str) -> Value {
    json!({"Regex": pattern})
}

fn literal(pattern: &str) -> Value {
    json!({"String": pattern})
}

/// Turns a named token that is a string into an `AddedToken`.
fn as_added(settings: &mut Settings, name: &str, shape: impl Fn(&mut AddedToken)) -> Result<()> {
    if let Some(Token::Text(content)) = settings.token(name)? {
        let mut token = AddedToken::new(&content);
        shape(&mut token);
        settings.set(name, token.to_value());
    }
    Ok(())
}

/// A setting that is a text; `None` if it is null or missing.
fn text(settings: &Settings, name: &str) -> Result<Option<String>> {
    match settings.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(settings.malformed(name, "must be a text")),
    }
}

/// Sets `RobertaProcessing` with two named tokens: the first one and the last one.
fn set_roberta(
    backend: &mut Backend,
    [front, back]: [&str; 2],
    trim_offsets: bool,
    add_prefix_space: bool,
) -> Result<()> {
    let (front, back) = (backend.required(front)?, backend.required(back)?);
    let ids = (backend.known_id(&front)?, backend.known_id(&back)?);
    backend.set_post_processor(&json!({
        "type": "RobertaProcessing",
        "cls": [front, ids.0],
        "sep": [back, ids.1],
        "trim_offsets": trim_offsets,
        "add_prefix_space": add_prefix_space,
    }))
}

/// Sets a template that puts tokens, given by their ids, before and after a text.
fn frame(backend: &mut Backend, before: &[u32], behind: &[u32], pair: PairTemplate) -> Result<()> {
    let name = |id: &u32| (backend.engine.id_to_token(*id).unwrap_or_default(), *id);
    let (before, behind): (Vec<_>, Vec<_>) =
        (before.iter().map(name).collect(), behind.iter().map(name).collect());
    let mut pieces = Vec::new();
    pieces.extend(before.iter().map(|(content, id)| TemplatePiece::Token(content, *id)));
    pieces.push(TemplatePiece::Text);
    pieces.extend(behind.iter().map(|(content, id)| TemplatePiece::Token(content, *id)));
    backend.set_pieces(&pieces, pair)
}

/// Puts `cls_token` before a text and `sep_token` after it.
fn frame_in_cls_and_sep(backend: &mut Backend, pair: PairTemplate) -> Result<()> {
    let (cls, sep) = (backend.required("cls_token")?, backend.required("sep_token")?);
    backend.set_template(&cls, &sep, pair)
}

/// Puts `cls_token` before a text and `sep_token` after it; a second text and its `sep_token` have the type 1.
fn frame_as_bert(backend: &mut Backend, _: &Settings) -> Result<()> {
    frame_in_cls_and_sep(backend, PairTemplate::Followed(1))
}
