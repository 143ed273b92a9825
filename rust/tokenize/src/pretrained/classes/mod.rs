//! The classes that build an engine of their own out of a vocabulary, whatever `tokenizer.json` says besides.
//!
//! One [`Recipe`] a class, next to the others of its model: what it names, what it builds, what it sets at the end.

mod bpe;
mod unigram;
mod wordpiece;

use serde_json::{Value, json};

use super::backend::Backend;
use super::settings::Settings;
use super::token::{AddedToken, Token};
use super::vocabulary::Vocabulary;
use crate::error::Result;

/// How a class makes a tokenizer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    /// The special tokens that its signature names, with their defaults, in the order of the signature.
    pub(super) defaults: &'static [(&'static str, Option<&'static str>)],
    /// What it does to its arguments first.
    pub(super) prepare: fn(&mut Settings) -> Result<()>,
    /// Its components as a `tokenizer.json` without added tokens and post-processor.
    pub(super) build: fn(&Settings, &Vocabulary<'_>) -> Result<Value>,
    /// What it does after the common initializer.
    pub(super) finish: fn(&mut Backend, &Settings) -> Result<()>,
}

/// The recipe of a class, if it is known and tested.
pub(super) fn recipe(class: &str) -> Option<Recipe> {
    bpe::recipe(class).or_else(|| wordpiece::recipe(class)).or_else(|| unigram::recipe(class))
}

impl Recipe {
    /// The settings with the class's own arguments in front.
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

/// A `tokenizer.json` of these components.
fn tokenizer(normalizer: Value, pre_tokenizer: Value, decoder: Value, model: Value) -> Value {
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

/// Makes an `AddedToken` of a named token that is still a string.
fn as_added(settings: &mut Settings, name: &str, shape: impl Fn(&mut AddedToken)) -> Result<()> {
    if let Some(Token::Text(content)) = settings.token(name)? {
        let mut token = AddedToken::new(&content);
        shape(&mut token);
        settings.set(name, token.to_value());
    }
    Ok(())
}

/// Sets `RobertaProcessing`; `front` and `back` are contents.
fn set_roberta(backend: &mut Backend, front: &str, back: &str, ids: (u32, u32)) -> Result<()> {
    backend.set_post_processor(&json!({
        "type": "RobertaProcessing",
        "cls": [front, ids.0],
        "sep": [back, ids.1],
        "trim_offsets": false,
        "add_prefix_space": false,
    }))
}

/// Frames a text in `cls_token` and `sep_token`.
fn frame_in_cls_and_sep(backend: &mut Backend, _: &Settings) -> Result<()> {
    let (cls, sep) = (backend.required("cls_token")?, backend.required("sep_token")?);
    backend.set_template(Some(&cls), Some(&sep))
}
