//! [`Outline`]: everything of a tokenizer but its tokens and merges, which stay in their file.
//!
//! Many files of a model folder describe its tokenizer, and the Hugging Face engine knows how they work
//! together. An engine without merges is built to find out, which takes a fraction of the time. The complete
//! engine is built only if it is needed.

use serde_json::{Value, json};

use crate::error::Result;
use crate::hugging_face::{self, HuggingFaceEngine};
use crate::loading::load;

/// A `tokenizer.json` without tokens and merges: the components, and the options of the model.
#[derive(Debug)]
pub(crate) struct Outline(Value);

impl Outline {
    /// The outline of an engine whose model was built from `model`.
    pub(crate) fn new(model: &Value, engine: &tokenizers::Tokenizer) -> Option<Self> {
        let mut options = model.as_object()?.clone();
        options.shift_remove("vocab");
        options.shift_remove("merges");
        Some(Self(json!({
            "version": "1.0",
            "added_tokens": serde_json::to_value(engine.get_added_vocabulary()).ok()?,
            "normalizer": serde_json::to_value(engine.get_normalizer()).ok()?,
            "pre_tokenizer": serde_json::to_value(engine.get_pre_tokenizer()).ok()?,
            "post_processor": serde_json::to_value(engine.get_post_processor()).ok()?,
            "decoder": serde_json::to_value(engine.get_decoder()).ok()?,
            "model": options,
        })))
    }

    /// The effective `tokenizer.json`, without tokens and merges.
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    /// Builds the engine around the tokens and merges of `json`.
    pub(crate) fn reference(&self, json: &str) -> Result<HuggingFaceEngine> {
        let mut file = load::parse(json)?;
        let mut whole = self.0.clone();
        for part in ["vocab", "merges"] {
            whole["model"][part] = file["model"][part].take();
        }
        load::check(&mut whole)?;
        let engine = hugging_face::build(&whole)?;
        hugging_face::check_added_tokens(&whole, &engine)?;
        Ok(HuggingFaceEngine::new(&whole["model"], engine))
    }
}
