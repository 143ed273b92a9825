//! Finds the class that `AutoTokenizer.from_pretrained` picks for a folder.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Value};

use super::model_folder::ModelFolder;
use super::model_types::MODEL_TYPES;
use super::names::{self, BACKEND, unsupported};
use crate::error::Result;

/// The contents of a folder that decide its class.
#[derive(Debug)]
pub(super) struct ModelFolderContents<'a> {
    /// The caller's name for the folder: its path, or the repository that it came from.
    pub(super) name: &'a Path,
    /// `config.json`, empty if there is none.
    pub(super) config: &'a Map<String, Value>,
    /// `tokenizer_config.json`, empty if there is none.
    pub(super) tokenizer_config: &'a Map<String, Value>,
    /// True if the text of `tokenizer.json` names a byte-level step.
    pub(super) byte_level: bool,
    pub(super) folder: &'a ModelFolder<'a>,
}

/// The class, without `Fast`; [`BACKEND`] for a class that only wraps `tokenizer.json`.
pub(super) fn class(evidence: &ModelFolderContents<'_>) -> Result<Cow<'static, str>> {
    let named = named_type(evidence.config);
    let model_type = model_type(named);
    let declared = text(evidence.tokenizer_config, "tokenizer_class", evidence)?;
    let from_config = evidence
        .config
        .get("tokenizer_class")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty());
    let hub_class = declared.filter(|name| !name.is_empty()).or(from_config);
    let remote = remote_code(evidence)?;
    let wrong = names::WRONG_CLASS.contains(&named)
        || evidence
            .config
            .get("model_name")
            .and_then(Value::as_str)
            .is_some_and(|name| names::WRONG_CLASS.contains(&name));

    if !remote {
        let name = evidence.name.to_string_lossy().to_lowercase();
        if names::BACKEND_REPOSITORIES.iter().any(|pattern| matches_pattern(pattern, &name)) {
            return Ok(BACKEND.into());
        }
        if let Some(class) = by_model_type(named, hub_class, wrong, evidence.byte_level) {
            return Ok(class);
        }
    }
    if remote && !names::WRONG_CLASS.contains(&named) {
        let local =
            has_config_class(model_type) || declared.is_some_and(|name| resolve(name).is_some());
        if !local {
            return Err(unsupported(
                declared.unwrap_or("AutoTokenizer"),
                "the folder brings its own Python code (`auto_map`)",
            ));
        }
    }
    if let Some(declared) = declared {
        return Ok(resolve(declared.strip_suffix("Fast").unwrap_or(declared))
            .filter(|class| class != "PythonBackend")
            .unwrap_or(BACKEND.into()));
    }
    if let Some(name) = from_config {
        // A `Fast` form is not looked for here.
        let plain = name.strip_suffix("Fast").filter(|_| !name.contains("PreTrainedTokenizerFast"));
        return resolve(plain.unwrap_or(name)).ok_or_else(|| {
            unsupported(name, "`config.json` names it, and transformers 5.24 does not know it")
        });
    }
    if model_type == "encoder-decoder" {
        return Err(evidence.folder.foreign("AutoTokenizer"));
    }
    if !has_config_class(model_type) {
        return Ok(BACKEND.into());
    }
    registered(model_type).and_then(resolve).map_or_else(|| Ok(BACKEND.into()), Ok)
}

/// The class that the model type decides, against the class that the folder names; `None` if it decides none.
fn by_model_type(
    model_type: &str,
    hub_class: Option<&str>,
    wrong: bool,
    byte_level: bool,
) -> Option<Cow<'static, str>> {
    let hub_class = hub_class?;
    let plain = hub_class.strip_suffix("Fast").unwrap_or(hub_class);
    if plain == "LlamaTokenizer" && !wrong && byte_level {
        return Some(BACKEND.into());
    }
    let registered = registered(model_type)?;
    let registered = registered.strip_suffix("Fast").unwrap_or(registered);
    if registered == plain {
        return None;
    }
    if registered != BACKEND {
        let class = resolve(if wrong { registered } else { hub_class });
        if let Some(class) = class.filter(|class| class != BACKEND && class != "PythonBackend") {
            return Some(class);
        }
    }
    Some(BACKEND.into())
}

/// The model type that the configuration names.
fn named_type(config: &Map<String, Value>) -> &str {
    let named = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
    if named == "mistral" && config.contains_key("layer_types") { "ministral" } else { named }
}

/// The model type whose configuration class a model type has.
fn model_type(named: &str) -> &str {
    let alias = names::MODEL_TYPE_ALIASES.iter().find(|(alias, _)| *alias == named);
    alias.map_or(named, |(_, name)| name)
}

fn registered(model_type: &str) -> Option<&'static str> {
    MODEL_TYPES.iter().find(|(name, _)| *name == model_type).map(|(_, class)| *class)
}

fn has_config_class(model_type: &str) -> bool {
    registered(model_type).is_some() && !names::WITHOUT_CONFIG.contains(&model_type)
}

/// The class that `tokenizer_class_from_name` finds for a name, if there is one.
fn resolve(name: &str) -> Option<Cow<'static, str>> {
    let plain = name.strip_suffix("Fast").unwrap_or(name);
    if name.starts_with("DPR") && plain != name {
        // Only for these classes is the `Fast` form another class.
        return Some(name.to_owned().into());
    }
    if plain == BACKEND || name == "PreTrainedTokenizerFast" {
        return Some(BACKEND.into());
    }
    if let Some((_, class)) = names::ALIASES.iter().find(|(alias, _)| *alias == plain) {
        return Some((*class).into());
    }
    names::CLASSES.iter().find(|class| **class == plain).map(|class| (*class).into())
}

/// True if `tokenizer_config.json` asks for its own Python code.
fn remote_code(evidence: &ModelFolderContents<'_>) -> Result<bool> {
    match evidence.tokenizer_config.get("auto_map") {
        None => Ok(false),
        Some(Value::Array(_)) => Ok(true),
        Some(Value::Object(map)) => {
            Ok(map.get("AutoTokenizer").is_some_and(|class| !class.is_null()))
        }
        Some(_) => {
            Err(evidence.folder.malformed("tokenizer_config.json", "`auto_map` must be an object"))
        }
    }
}

fn text<'a>(
    map: &'a Map<String, Value>,
    key: &str,
    evidence: &ModelFolderContents<'_>,
) -> Result<Option<&'a str>> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(evidence
            .folder
            .malformed("tokenizer_config.json", format!("`{key}` must be a string"))),
    }
}

/// True if a name matches a shell pattern, which has a star at its end or none.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}
