//! [`Recipe`]: the steps by which a class makes a tokenizer, and the components that several classes share.

use serde_json::{Value, json};

use crate::error::Result;
use crate::pretrained::backend::Backend;
use crate::pretrained::checked_vocabulary::CheckedVocabulary;
use crate::pretrained::settings::Settings;

/// The steps by which a class makes a tokenizer.
#[derive(Clone, Copy, Debug)]
pub(in crate::pretrained) struct Recipe {
    /// The special tokens that its signature names, with their defaults, in the order of the signature.
    pub(in crate::pretrained) defaults: &'static [(&'static str, Option<&'static str>)],
    /// Changes the arguments before anything else.
    pub(in crate::pretrained) prepare: fn(&mut Settings) -> Result<()>,
    /// Builds the components, as a `tokenizer.json` without added tokens and post-processor.
    pub(in crate::pretrained) build: fn(&Settings, &CheckedVocabulary<'_>) -> Result<Value>,
    /// Changes the tokenizer after the common initializer.
    pub(in crate::pretrained) finish: fn(&mut Backend, &Settings) -> Result<()>,
}

/// The special tokens of `RoBERTa` and of the classes that took them over.
pub(super) const ROBERTA_TOKENS: &[(&str, Option<&str>)] = &[
    ("bos_token", Some("<s>")),
    ("eos_token", Some("</s>")),
    ("sep_token", Some("</s>")),
    ("cls_token", Some("<s>")),
    ("unk_token", Some("<unk>")),
    ("pad_token", Some("<pad>")),
    ("mask_token", Some("<mask>")),
];

impl Recipe {
    /// The settings, with the class's own arguments first.
    pub(in crate::pretrained) fn arguments(&self, settings: Settings) -> Result<Settings> {
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
pub(super) fn keep_settings(_: &mut Settings) -> Result<()> {
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "stands in for a step that can fail")]
pub(super) fn nothing_more(_: &mut Backend, _: &Settings) -> Result<()> {
    Ok(())
}

/// A `tokenizer.json` with these components, without added tokens and post-processor.
pub(in crate::pretrained) fn tokenizer(
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

pub(super) fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

pub(super) fn replace(pattern: &Value, content: &str) -> Value {
    json!({"type": "Replace", "pattern": pattern, "content": content})
}

pub(super) fn regex(pattern: &str) -> Value {
    json!({"Regex": pattern})
}

pub(super) fn literal(pattern: &str) -> Value {
    json!({"String": pattern})
}

/// Sets `RobertaProcessing` with two named tokens: the first one and the last one.
pub(super) fn set_roberta(
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
