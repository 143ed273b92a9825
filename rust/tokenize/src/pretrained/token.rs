//! A special token as Python represents it: a string, or an `AddedToken`.

use serde_json::{Map, Value, json};

/// The key that marks an `AddedToken` among JSON objects.
const MARK: &str = "__type";

/// The value of a `*_token` setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenSetting {
    /// A string.
    Text(String),
    /// A `tokenizers.AddedToken`.
    Added(AddedTokenSetting),
}

/// Python's `AddedToken`: `normalized` follows `special` until it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the fields of the Python class")]
pub(super) struct AddedTokenSetting {
    pub(super) content: String,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: Option<bool>,
    pub(super) special: bool,
}

impl AddedTokenSetting {
    pub(super) fn new(content: &str) -> Self {
        Self {
            content: content.to_owned(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: None,
            special: false,
        }
    }

    /// `AddedToken(**value)`; the error says why Python raises.
    pub(super) fn from_fields(value: &Map<String, Value>) -> Result<Self, String> {
        let content =
            value.get("content").and_then(Value::as_str).ok_or("`content` must be a string")?;
        let mut token = Self::new(content);
        for (key, value) in value {
            let flag = || value.as_bool().ok_or_else(|| format!("`{key}` must be true or false"));
            match key.as_str() {
                "content" | MARK => {}
                "single_word" => token.single_word = flag()?,
                "lstrip" => token.lstrip = flag()?,
                "rstrip" => token.rstrip = flag()?,
                "normalized" => token.normalized = Some(flag()?),
                "special" => token.special = flag()?,
                _ => return Err(format!("an added token has no `{key}`")),
            }
        }
        Ok(token)
    }

    /// The token as the value of a setting.
    pub(super) fn to_value(&self) -> Value {
        let mut value = json!({
            MARK: "AddedToken",
            "content": self.content,
            "single_word": self.single_word,
            "lstrip": self.lstrip,
            "rstrip": self.rstrip,
            "special": self.special,
        });
        if let Some(normalized) = self.normalized {
            value["normalized"] = normalized.into();
        }
        value
    }

    /// The token as the engine's type.
    pub(super) fn resolve(&self) -> tokenizers::AddedToken {
        tokenizers::AddedToken::from(self.content.clone(), self.special)
            .single_word(self.single_word)
            .lstrip(self.lstrip)
            .rstrip(self.rstrip)
            .normalized(self.normalized.unwrap_or(!self.special))
    }

    /// True if two tokens are equal by Python's `==`.
    fn equals(&self, other: &Self) -> bool {
        self.resolve() == other.resolve()
    }
}

impl TokenSetting {
    /// Reads a setting; `None` for null. The error says why Python raises.
    pub(super) fn from_value(value: &Value) -> Result<Option<Self>, String> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(Self::Text(text.clone()))),
            Value::Object(fields)
                if fields.get(MARK).and_then(Value::as_str) == Some("AddedToken") =>
            {
                AddedTokenSetting::from_fields(fields).map(|token| Some(Self::Added(token)))
            }
            _ => Err("must be a string, an added token or null".to_owned()),
        }
    }

    /// The token as the value of a setting.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::Added(token) => token.to_value(),
        }
    }

    /// The content, as Python's `str()` gives it.
    pub(super) fn content(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Added(token) => &token.content,
        }
    }

    /// True if two tokens are equal by Python's `==`: a string never equals an `AddedToken`.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Added(a), Self::Added(b)) => a.equals(b),
            _ => false,
        }
    }
}
