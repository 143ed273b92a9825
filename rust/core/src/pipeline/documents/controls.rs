//! [`ControlTokens`]: finds the control tokens of a tokenizer in texts.

use std::collections::HashMap;

use fastpack_template::json::Json;
use fastpack_tokenize::Tokenizer;

/// The bytes that a token is looked up by.
type Beginning = [u8; 2];

/// The control tokens of a tokenizer, by their first two bytes. Texts are searched for the first byte alone, of which
/// most tokenizers have one or two.
pub(super) struct ControlTokens {
    first: Vec<u8>,
    tokens: HashMap<Beginning, Vec<String>>,
}

impl ControlTokens {
    /// The special tokens of a tokenizer that have at least two bytes.
    pub(super) fn of(tokenizer: Option<&Tokenizer>) -> Self {
        let mut tokens: HashMap<Beginning, Vec<String>> = HashMap::new();
        for token in tokenizer.map_or(&[][..], Tokenizer::special_tokens) {
            if let Some(beginning) = token.as_bytes().first_chunk() {
                tokens.entry(*beginning).or_default().push(token.clone());
            }
        }
        let mut first: Vec<u8> = tokens.keys().map(|beginning| beginning[0]).collect();
        first.sort_unstable();
        first.dedup();
        Self { first, tokens }
    }

    /// Whether a control token occurs in a text.
    pub(super) fn occur_in(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let begins = |at: usize| {
            let rest = &bytes[at..];
            let known =
                rest.first_chunk().and_then(|beginning: &Beginning| self.tokens.get(beginning));
            known.is_some_and(|known| known.iter().any(|token| rest.starts_with(token.as_bytes())))
        };
        match *self.first {
            [] => false,
            [one] => memchr::memchr_iter(one, bytes).any(begins),
            [one, two] => memchr::memchr2_iter(one, two, bytes).any(begins),
            [one, two, three] => memchr::memchr3_iter(one, two, three, bytes).any(begins),
            _ => (0..bytes.len()).any(|at| self.first.contains(&bytes[at]) && begins(at)),
        }
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
