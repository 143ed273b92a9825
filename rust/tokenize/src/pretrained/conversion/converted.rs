//! [`ConvertedTokenizer`]: a `tokenizer.json` made from another file of a folder.

use serde_json::Value;

use crate::pretrained::names::BACKEND;

/// The file of Mistral's tokenizers.
pub(super) const TEKKEN: &str = "tekken.json";

/// A `tokenizer.json` made from another file.
#[derive(Debug)]
pub(in crate::pretrained) struct ConvertedTokenizer {
    pub(in crate::pretrained) file: Value,
    /// True if the file is the whole tokenizer; otherwise the class makes one of its vocabulary.
    pub(in crate::pretrained) is_whole: bool,
    /// True if `added_tokens_decoder` is matched before the text is normalized.
    pub(in crate::pretrained) adds_unnormalized: bool,
    /// The arguments that the other file decides, in Python's order.
    pub(in crate::pretrained) settings: Vec<(String, Value)>,
}

impl ConvertedTokenizer {
    pub(super) fn new(file: Value) -> Self {
        Self { file, is_whole: false, adds_unnormalized: false, settings: Vec::new() }
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.settings.push((name.to_owned(), value));
    }
}

/// True if transformers makes a tokenizer for `class` from a whole tokenizer in another file.
pub(super) fn takes_whole(class: &str) -> bool {
    matches!(class, BACKEND | "GPT2Tokenizer" | "GemmaTokenizer" | "LlamaTokenizer")
}
