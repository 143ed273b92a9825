//! The keyword arguments that `from_pretrained` gathers for a class from the files of a folder.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::model_folder::ModelFolder;
use super::token::{AddedTokenSetting, TokenSetting};
use crate::error::{Error, Result};

/// The special tokens that every class names, in the order of `special_tokens_map`.
pub(super) const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

const CONFIG: &str = "tokenizer_config.json";

/// The keyword arguments of a class, in the order in which Python passes them.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    values: Map<String, Value>,
    /// `added_tokens_decoder`: the tokens to add, by the id that the folder gives them.
    pub(super) added_tokens: BTreeMap<i64, AddedTokenSetting>,
    file: String,
}

impl Settings {
    /// Gathers the arguments as `PreTrainedTokenizerBase._from_pretrained` does; `is_listed` if the folder
    /// has no `tokenizer.json`.
    pub(super) fn gather(
        folder: &ModelFolder<'_>,
        config: Map<String, Value>,
        tokenizer: &Value,
        is_listed: bool,
    ) -> Result<Self> {
        let mut values = config;
        if values
            .shift_remove("init_inputs")
            .is_some_and(|inputs| inputs.as_array().is_none_or(|list| !list.is_empty()))
        {
            return Err(
                folder.malformed(CONFIG, "`init_inputs` (positional arguments) are not supported")
            );
        }
        for ignored in ["tokenizer_class", "chat_template"] {
            values.shift_remove(ignored);
        }
        // If there is a `tokenizer.json`, its post-processor decides instead of these two.
        for ignored in ["add_bos_token", "add_eos_token"] {
            if !is_listed {
                values.shift_remove(ignored);
            }
        }
        if values.contains_key("additional_special_tokens")
            && !truthy(values.get("extra_special_tokens"))
        {
            let tokens = values.shift_remove("additional_special_tokens").unwrap_or_default();
            values.insert("extra_special_tokens".to_owned(), tokens);
        }
        collect_model_specific(&mut values);
        let mut settings = Self {
            values,
            added_tokens: BTreeMap::new(),
            file: folder.path(CONFIG).display().to_string(),
        };
        let by_content = settings.gather_added_tokens(folder, tokenizer)?;
        for name in NAMED {
            let Some(token) = settings.token(name)? else { continue };
            if let Some(added) = by_content.get(token.content()) {
                settings.values.insert(name.to_owned(), added.to_value());
            }
        }
        Ok(settings)
    }

    /// Fills `added_tokens`; returns the last token of each content.
    fn gather_added_tokens(
        &mut self,
        folder: &ModelFolder<'_>,
        tokenizer: &Value,
    ) -> Result<HashMap<String, AddedTokenSetting>> {
        let mut by_content = HashMap::new();
        if let Some(listed) = self.values.shift_remove("added_tokens_decoder") {
            let Value::Object(listed) = listed else {
                return Err(self.malformed("added_tokens_decoder", "must be an object"));
            };
            for (id, fields) in &listed {
                let id = id.trim().parse().map_err(|_| {
                    self.malformed("added_tokens_decoder", format!("`{id}` is not an id"))
                })?;
                let token = fields
                    .as_object()
                    .ok_or_else(|| "must hold objects".to_owned())
                    .and_then(AddedTokenSetting::from_fields)
                    .map_err(|reason| self.malformed("added_tokens_decoder", reason))?;
                by_content.insert(token.content.clone(), token.clone());
                self.added_tokens.insert(id, token);
            }
            return Ok(by_content);
        }
        // Python compares contents before it reads the tokens that the configuration writes as objects.
        let unread = self.objects();
        if let Some(map) = folder.object("special_tokens_map.json")? {
            self.merge_special_tokens_map(folder, map)?;
        }
        if let Some(added) = folder.object("added_tokens.json")? {
            let special = self.special_contents(&unread)?;
            for (content, id) in added {
                let id = id.as_i64().ok_or_else(|| {
                    folder.malformed(
                        "added_tokens.json",
                        format!("the id of `{content}` must be an integer"),
                    )
                })?;
                let is_special = special.contains(&content);
                let mut token = AddedTokenSetting::new(&content);
                token.special = is_special;
                token.normalized = Some(!is_special);
                by_content.insert(content, token.clone());
                self.added_tokens.insert(id, token);
            }
        }
        for listed in
            tokenizer.get("added_tokens").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
        {
            let Some(fields) = listed.as_object() else { continue };
            let mut fields = fields.clone();
            let id = fields.shift_remove("id").and_then(|id| id.as_i64()).unwrap_or_default();
            let token = AddedTokenSetting::from_fields(&fields)
                .map_err(|reason| crate::loading::load::malformed("added_tokens", reason))?;
            by_content.insert(token.content.clone(), token.clone());
            self.added_tokens.insert(id, token);
        }
        Ok(by_content)
    }

    /// Merges the legacy `special_tokens_map.json` into the settings; its values win.
    fn merge_special_tokens_map(
        &mut self,
        folder: &ModelFolder<'_>,
        map: Map<String, Value>,
    ) -> Result<()> {
        const FILE: &str = "special_tokens_map.json";
        let special = |mut fields: Map<String, Value>| {
            fields.insert("special".to_owned(), Value::Bool(true));
            AddedTokenSetting::from_fields(&fields)
                .map(|token| token.to_value())
                .map_err(|reason| folder.malformed(FILE, reason))
        };
        for (key, value) in map {
            let value = match value {
                Value::Object(fields) if key != "extra_special_tokens" => special(fields)?,
                Value::Array(tokens) if key == "extra_special_tokens" => {
                    let mut merged = match self.values.get(&key) {
                        Some(Value::Array(existing)) => existing.clone(),
                        other if !truthy(other) => Vec::new(),
                        _ => return Err(folder.malformed(FILE, "`extra_special_tokens` is a list here and an object in the configuration")),
                    };
                    for token in tokens {
                        let token = match token {
                            Value::Object(fields) => special(fields)?,
                            other => other,
                        };
                        if !merged.contains(&token) {
                            merged.push(token);
                        }
                    }
                    Value::Array(merged)
                }
                other => other,
            };
            self.values.insert(key, value);
        }
        if let Some(Value::Object(_)) = self.values.get("extra_special_tokens") {
            let named = self.values.shift_remove("extra_special_tokens").unwrap_or_default();
            let specific = self
                .values
                .entry("model_specific_special_tokens")
                .or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(specific), Value::Object(named)) = (specific, named) {
                specific.extend(named);
            }
        }
        Ok(())
    }

    /// The settings that are objects, and the extra special tokens that are.
    fn objects(&self) -> Vec<Value> {
        let extra = self.values.get("extra_special_tokens").and_then(Value::as_array);
        let all = self.values.values().chain(extra.into_iter().flatten());
        all.filter(|value| value.is_object()).cloned().collect()
    }

    /// The contents of the named and extra special tokens so far, but those of the values `unread`.
    fn special_contents(&self, unread: &[Value]) -> Result<Vec<String>> {
        let mut contents = Vec::new();
        let is_read = |value: Option<&Value>| value.is_some_and(|value| !unread.contains(value));
        for name in NAMED.into_iter().filter(|name| is_read(self.values.get(*name))) {
            contents.extend(self.token(name)?.map(|token| token.content().to_owned()));
        }
        let extra = self.values.get("extra_special_tokens").and_then(Value::as_array);
        let tokens = self.list("extra_special_tokens")?.unwrap_or_default();
        for (token, value) in tokens.iter().zip(extra.into_iter().flatten()) {
            if is_read(Some(value)) {
                contents.push(token.content().to_owned());
            }
        }
        Ok(contents)
    }

    /// Puts the arguments that a class names first, in its order. Missing ones get the class's defaults.
    pub(super) fn with_defaults(mut self, defaults: &[(&str, Value)]) -> Self {
        let mut ordered = Map::new();
        for (name, default) in defaults {
            let value = self.values.shift_remove(*name).unwrap_or_else(|| default.clone());
            ordered.insert((*name).to_owned(), value);
        }
        ordered.extend(self.values);
        Self { values: ordered, ..self }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Value> {
        self.values.shift_remove(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// A special token; `None` if it is null or missing.
    pub(super) fn token(&self, name: &str) -> Result<Option<TokenSetting>> {
        let value = self.values.get(name).unwrap_or(&Value::Null);
        TokenSetting::from_value(value).map_err(|reason| self.malformed(name, reason))
    }

    /// Python's `str()` of a special token.
    pub(super) fn content(&self, name: &str) -> Result<String> {
        Ok(self.token(name)?.map_or_else(|| "None".to_owned(), |token| token.content().to_owned()))
    }

    /// Python's `str()` of a special token, or a default if it is missing.
    pub(super) fn content_or(&self, name: &str, default: &str) -> Result<String> {
        if self.contains(name) { self.content(name) } else { Ok(default.to_owned()) }
    }

    /// A count, or a default if it is missing.
    pub(super) fn count_or(&self, name: &str, default: u64) -> Result<u64> {
        let count = self.values.get(name).map(Value::as_u64);
        count.unwrap_or(Some(default)).ok_or_else(|| self.malformed(name, "must be a count"))
    }

    /// A list of tokens; `None` if it is null or missing.
    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<TokenSetting>>> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(values)) => values
                .iter()
                .map(|value| {
                    TokenSetting::from_value(value)
                        .and_then(|token| token.ok_or_else(|| "holds null".to_owned()))
                        .map_err(|reason| self.malformed(name, reason))
                })
                .collect::<Result<_>>()
                .map(Some),
            Some(_) => Err(self.malformed(name, "must be a list")),
        }
    }

    /// A flag with its default.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.values.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.malformed(name, "must be true or false")),
        }
    }

    /// A flag that can also be null.
    pub(super) fn optional_flag(&self, name: &str) -> Result<Option<bool>> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.malformed(name, "must be true, false or null")),
        }
    }

    /// An error about one setting.
    pub(super) fn malformed(&self, name: &str, reason: impl std::fmt::Display) -> Error {
        Error::Malformed { file: self.file.clone(), reason: format!("`{name}` {reason}") }
    }
}

/// Moves `*_token` strings that no class names, and named extra tokens, to `model_specific_special_tokens`.
fn collect_model_specific(values: &mut Map<String, Value>) {
    let keys: Vec<String> = values
        .iter()
        .filter(|(key, value)| {
            key.ends_with("_token") && !NAMED.contains(&key.as_str()) && value.is_string()
        })
        .map(|(key, _)| key.clone())
        .collect();
    let mut specific = Map::new();
    for key in keys {
        if let Some(value) = values.shift_remove(&key) {
            specific.insert(key, value);
        }
    }
    if matches!(values.get("extra_special_tokens"), Some(Value::Object(_)))
        && let Some(Value::Object(named)) = values.shift_remove("extra_special_tokens")
    {
        specific.extend(named);
    }
    if !specific.is_empty() {
        values.insert("model_specific_special_tokens".to_owned(), Value::Object(specific));
    }
}

/// True if Python takes a JSON value for true.
pub(super) fn truthy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
    }
}
