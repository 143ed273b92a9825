//! [`Tokenizer`] and the choice of its engine: a compiled one if every component is known, else the Hugging Face crate.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;

use crate::added::AddedToken;
use crate::compiled::{
    Caches, Compiled, Description, TokenNames, TokenizerFile, WrittenModel, recognise,
};
use crate::error::Result;
use crate::hugging_face::{self, HuggingFaceEngine};
use crate::loading::in_parallel::both;
use crate::loading::load;
use crate::loading::without_vocabulary::Outline;
use crate::models::scores;

/// Default bytes of the caches: two tables for short pieces, of 28 MiB each, and 8 MiB of each thread.
const CACHE_BYTES: usize = 64 << 20;

/// The engine that makes the ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The compiled engine for this kind of tokenizer.
    Compiled,
    /// The Hugging Face crate.
    Reference {
        /// The component of the tokenizer that is not supported, or the caller's request.
        reason: String,
    },
}

/// A tokenizer, ready to be shared by any number of threads. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    pub(super) reference: Arc<LazyHuggingFace>,
    /// The compiled engine with its tokens, or the reason for using the Hugging Face crate.
    pub(super) compiled: std::result::Result<Arc<(Compiled, TokenNames)>, Arc<str>>,
    pub(super) caches: Caches,
}

/// The Hugging Face engine; if a compiled engine makes the ids, it is built at its first use.
#[derive(Debug)]
pub(super) struct LazyHuggingFace {
    pub(super) json: String,
    /// Replaces everything of `json` but its tokens and merges.
    pub(super) outline: Option<Outline>,
    pub(super) engine: OnceLock<HuggingFaceEngine>,
    pub(super) fingerprint: OnceLock<String>,
}

impl LazyHuggingFace {
    fn of(engine: HuggingFaceEngine) -> Self {
        Self { engine: OnceLock::from(engine), ..Self::later(String::new(), None) }
    }

    fn later(json: String, outline: Option<Outline>) -> Self {
        Self { json, outline, engine: OnceLock::new(), fingerprint: OnceLock::new() }
    }

    pub(super) fn get(&self) -> Result<&HuggingFaceEngine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let engine = match &self.outline {
            None => HuggingFaceEngine::from_json(&self.json)?,
            Some(outline) => outline.reference(&self.json)?,
        };
        Ok(self.engine.get_or_init(|| engine))
    }

    /// The post-processor where the engine has not been built.
    pub(super) fn post_processor(&self) -> Option<Value> {
        match (self.engine.get(), &self.outline) {
            (Some(_), _) => None,
            (None, Some(outline)) => Some(outline.value()["post_processor"].clone()),
            (None, None) => TokenizerFile::read(&self.json).map(|file| file.post_processor),
        }
    }
}

impl Tokenizer {
    /// Builds the tokenizer that a `tokenizer.json` describes; the rules of model classes do not apply.
    ///
    /// `truncation` and `padding` in the file are ignored, as they are by a plain call in `transformers`.
    pub fn from_json(json: &str) -> Result<Self> {
        if let Some(compiled) = compile_file(json) {
            let reference = LazyHuggingFace::later(json.to_owned(), None);
            return Ok(Self {
                reference: Arc::new(reference),
                compiled: Ok(Arc::new(compiled)),
                caches: Caches::new(CACHE_BYTES),
            });
        }
        let mut value = load::parse(json)?;
        load::check(&mut value)?;
        let engine = hugging_face::build(&value)?;
        hugging_face::check_added_tokens(&value, &engine)?;
        Ok(Self::from_engine(&value["model"], engine))
    }

    /// As [`Self::from_json`], for the text of a file: its scores are those that the published Hugging Face library reads,
    /// which can miss the written ones by some units in the last place.
    pub fn from_file_text(json: &str) -> Result<Self> {
        Self::from_json(scores::as_published(json).as_deref().unwrap_or(json))
    }

    /// A tokenizer around an engine of the Hugging Face crate, compiled if every component is supported;
    /// `model` is the `model` object that the engine was built from.
    pub(crate) fn from_engine(model: &Value, engine: tokenizers::Tokenizer) -> Self {
        let compiled =
            WrittenModel::from_value(model).and_then(|model| compile_engine(&model, &engine));
        Self {
            reference: Arc::new(LazyHuggingFace::of(HuggingFaceEngine::new(model, engine))),
            compiled: compiled.map(Arc::new).map_err(Arc::from),
            caches: Caches::new(CACHE_BYTES),
        }
    }

    /// A tokenizer with the tokens and merges of `json` and all other components of `engine`, which was built
    /// from `model` without merges; `None` if it cannot be compiled.
    pub(crate) fn from_outline(
        json: String,
        model: &Value,
        engine: &tokenizers::Tokenizer,
    ) -> Option<Self> {
        let outline = Outline::new(model, engine)?;
        let tokens = TokenizerFile::read(&json)?.model;
        let compiled = compile_engine(&tokens.with_options(model).ok()?, engine).ok()?;
        Some(Self {
            reference: Arc::new(LazyHuggingFace::later(json, Some(outline))),
            compiled: Ok(Arc::new(compiled)),
            caches: Caches::new(CACHE_BYTES),
        })
    }

    /// A copy that encodes with the Hugging Face crate, for comparisons.
    pub fn with_reference_engine(&self) -> Result<Self> {
        self.reference.get()?;
        let reason = Arc::from("asked for by the caller");
        Ok(Self {
            reference: Arc::clone(&self.reference),
            compiled: Err(reason),
            caches: self.caches.clone(),
        })
    }

    /// The engine that makes the ids, and the reason if it is not a compiled one.
    pub fn engine(&self) -> Engine {
        match &self.compiled {
            Ok(_) => Engine::Compiled,
            Err(reason) => Engine::Reference { reason: reason.as_ref().to_owned() },
        }
    }
}

/// Compiles a file without building the Hugging Face model; `None` if anything about the file is unusual.
fn compile_file(json: &str) -> Option<(Compiled, TokenNames)> {
    let file = TokenizerFile::read(json)?;
    let decoder = Option::deserialize(&file.decoder).ok()?;
    let description = Description {
        normalizer: &file.normalizer,
        pre_tokenizer: &file.pre_tokenizer,
        post_processor: &file.post_processor,
        added_tokens: &file.added_tokens,
        model: &file.model,
    };
    let (compiled, names) = both(
        || recognise(&description),
        || TokenNames::new(&file.model, &file.added_tokens, decoder),
    );
    let (compiled, names) = (compiled.ok()?, names?);
    let names = names.normalized(|content| compiled.normalized(content));
    Some((compiled, names))
}

/// Compiles the components of a finished engine.
fn compile_engine(
    model: &WrittenModel<'_>,
    engine: &tokenizers::Tokenizer,
) -> std::result::Result<(Compiled, TokenNames), String> {
    if engine.get_encode_special_tokens() {
        return Err("split_special_tokens".to_owned());
    }
    let as_json =
        |component: serde_json::Result<Value>| component.map_err(|error| error.to_string());
    let added = as_json(serde_json::to_value(engine.get_added_vocabulary()))?;
    let added: Vec<AddedToken> = Vec::deserialize(&added).map_err(|error| error.to_string())?;
    let names = TokenNames::new(model, &added, engine.get_decoder().cloned())
        .ok_or("added_tokens with ids out of place")?;
    let compiled = recognise(&Description {
        normalizer: &as_json(serde_json::to_value(engine.get_normalizer()))?,
        pre_tokenizer: &as_json(serde_json::to_value(engine.get_pre_tokenizer()))?,
        post_processor: &as_json(serde_json::to_value(engine.get_post_processor()))?,
        added_tokens: &added,
        model,
    })?;
    let names = names.normalized(|content| compiled.normalized(content));
    Ok((compiled, names))
}
