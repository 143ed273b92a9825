//! [`BuiltTokenizer`]: the tokenizer of a folder as an installed transformers built it.

use std::path::Path;

use super::folder_files::checked_engine;
use super::model_folder::ModelFolder;
use super::pretrained_tokenizer::{BuiltBy, Pretrained, stop_tokens};
use super::templates::NamedTemplate;
use crate::error::Result;
use crate::loading::load;
use crate::tokenizer::Tokenizer;

/// A tokenizer that transformers built of a folder.
#[derive(Clone, Debug)]
pub struct BuiltTokenizer {
    /// The version of transformers.
    pub transformers: String,
    /// The `tokenizer.json` that it built.
    pub json: String,
    /// True if special tokens in a text are encoded as text, which no `tokenizer.json` says.
    pub splits_special_tokens: bool,
    /// As [`Pretrained::special_tokens`].
    pub special_tokens: Vec<(String, String)>,
    /// As [`Pretrained::chat_templates`].
    pub chat_templates: Vec<NamedTemplate>,
    /// As [`Pretrained::call`].
    pub call: String,
}

impl Pretrained {
    /// The tokenizer that transformers built of the folder `dir`.
    pub fn from_built(dir: &Path, built: BuiltTokenizer) -> Result<Self> {
        let tokenizer = if built.splits_special_tokens {
            let mut value = load::parse(&built.json)?;
            load::check(&mut value)?;
            let mut engine = checked_engine(&value)?;
            engine.set_encode_special_tokens(true);
            Tokenizer::from_engine(&value["model"], engine)
        } else {
            Tokenizer::from_json(&built.json)?
        };
        let stop_tokens = stop_tokens(&ModelFolder::new(dir), &tokenizer)?;
        let tokenizer_json = blake3::hash(built.json.as_bytes()).to_hex().to_string();
        Ok(Self {
            tokenizer,
            special_tokens: built.special_tokens,
            stop_tokens,
            chat_templates: built.chat_templates,
            call: built.call,
            built_by: Some(BuiltBy { transformers: built.transformers, tokenizer_json }),
        })
    }
}
