//! [`ControlTokens`]: finds the control tokens of a tokenizer in texts.

use aho_corasick::AhoCorasick;
use fastpack_template::json::Json;
use fastpack_tokenize::Tokenizer;

/// The control tokens of a tokenizer, if it has some.
pub(super) struct ControlTokens(Option<AhoCorasick>);

impl ControlTokens {
    /// The special tokens of a tokenizer that have at least two bytes.
    pub(super) fn of(tokenizer: Option<&Tokenizer>) -> Self {
        let tokens = tokenizer.map_or(&[][..], Tokenizer::special_tokens);
        let tokens: Vec<&String> = tokens.iter().filter(|token| token.len() > 1).collect();
        Self((!tokens.is_empty()).then(|| AhoCorasick::new(tokens).ok()).flatten())
    }

    /// Whether a control token occurs in a text.
    pub(super) fn occur_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|tokens| tokens.is_match(text))
    }

    /// Whether a control token occurs in a text of a value.
    pub(super) fn occur_in_value(&self, value: &Json) -> bool {
        match value {
            Json::String(text) => self.occur_in(text),
            Json::List(items) => items.iter().any(|item| self.occur_in_value(item)),
            Json::Map(map) => map.values().any(|item| self.occur_in_value(item)),
            _ => false,
        }
    }
}
