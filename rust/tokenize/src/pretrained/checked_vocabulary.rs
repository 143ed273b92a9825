//! The parts of `tokenizer.json` that a class reads when it builds its own engine.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::loading::load::{malformed, merge_pair};

/// Vocabulary, merges and character map of a checked `tokenizer.json`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedVocabulary<'a> {
    pub(super) tokenizer: &'a Value,
    /// The text of the file.
    pub(super) json: &'a str,
}

impl CheckedVocabulary<'_> {
    fn model(&self) -> &Value {
        &self.tokenizer["model"]
    }

    /// The id of each token; in a list, the id is the index.
    pub(super) fn ids(&self) -> Value {
        match &self.model()["vocab"] {
            Value::Array(pieces) => {
                let mut ids = Map::new();
                for (id, piece) in pieces.iter().enumerate() {
                    if let Some(text) = piece.get(0).and_then(Value::as_str) {
                        ids.insert(text.to_owned(), id.into());
                    }
                }
                Value::Object(ids)
            }
            ids => ids.clone(),
        }
    }

    /// The merges as pairs; empty if the model has none.
    pub(super) fn merges(&self) -> Value {
        let merges = self.model().get("merges").and_then(Value::as_array);
        merges
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .filter_map(merge_pair)
            .map(|(left, right)| json!([left, right]))
            .collect()
    }

    /// The pieces and their scores, parsed as Python does: to the nearest double.
    pub(super) fn pieces(&self) -> Result<Vec<(String, f64)>> {
        #[derive(Deserialize)]
        struct File {
            model: Model,
        }
        #[derive(Deserialize)]
        struct Model {
            vocab: Vec<(String, Box<RawValue>)>,
        }
        let file: File = serde_json::from_str(self.json).map_err(|_| {
            malformed("model.vocab", "must be a list of pieces and scores for this class")
        })?;
        file.model
            .vocab
            .into_iter()
            .map(|(piece, score)| match score.get().parse() {
                Ok(score) => Ok((piece, score)),
                Err(_) => {
                    Err(malformed("model.vocab", format!("the score of `{piece}` is not a number")))
                }
            })
            .collect()
    }

    /// The `Precompiled` normalizer of the file, if it has one.
    pub(super) fn charsmap(&self) -> Option<Value> {
        let normalizer = self.tokenizer.get("normalizer")?;
        let steps = match normalizer.get("normalizers").and_then(Value::as_array) {
            Some(steps) => steps.as_slice(),
            None => std::slice::from_ref(normalizer),
        };
        steps.iter().find(|step| step["type"] == "Precompiled").cloned()
    }
}
