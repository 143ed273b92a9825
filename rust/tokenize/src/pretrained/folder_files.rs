//! [`FolderFiles`]: the engine that the files of a folder make with the recipe of its class.

use serde_json::{Map, Value};

use super::backend::Backend;
use super::checked_vocabulary::CheckedVocabulary;
use super::classes::Recipe;
use super::conversion::ConvertedTokenizer;
use super::model_folder::ModelFolder;
use super::settings::Settings;
use crate::error::Result;
use crate::hugging_face;
use crate::loading::load;

/// The folder, the recipe of its tokenizer class and its configuration.
pub(super) struct FolderFiles<'a> {
    pub(super) folder: &'a ModelFolder<'a>,
    /// The rules of the class; `None` for one that takes `tokenizer.json` as it is.
    pub(super) recipe: Option<Recipe>,
    /// The file that the folder has instead of a `tokenizer.json`, as one.
    pub(super) converted: Option<ConvertedTokenizer>,
    pub(super) config: Map<String, Value>,
}

impl FolderFiles<'_> {
    /// Builds the tokenizer from `tokenizer`, the value of `json`; also returns the model that it was built
    /// from.
    pub(super) fn backend(&self, mut tokenizer: Value, json: &str) -> Result<(Backend, Value)> {
        // The padding of the file can name the pad token, if nothing else does.
        let padding = tokenizer.get("padding").cloned();
        load::check(&mut tokenizer)?;
        let is_converted = self.converted.is_some();
        let mut settings =
            Settings::gather(self.folder, self.config.clone(), &tokenizer, is_converted)?;
        for (name, value) in self.converted.iter().flat_map(|converted| &converted.settings) {
            settings.set(name, value.clone());
        }
        if self.converted.as_ref().is_some_and(|converted| converted.adds_unnormalized) {
            settings.added_tokens.values_mut().for_each(|it| it.normalized = Some(false));
        }
        let is_whole = self.converted.as_ref().is_some_and(|converted| converted.is_whole);
        let Some(recipe) = self.recipe else {
            let engine = checked_engine(&tokenizer)?;
            let backend = Backend::new(self.folder, engine, settings, None, padding.as_ref())?;
            return Ok((backend, tokenizer["model"].take()));
        };
        let settings = recipe.arguments(settings)?;
        if is_whole {
            let engine = checked_engine(&tokenizer)?;
            let mut backend = Backend::new(self.folder, engine, settings.clone(), None, None)?;
            (recipe.finish)(&mut backend, &settings)?;
            return Ok((backend, tokenizer["model"].take()));
        }
        let mut built =
            (recipe.build)(&settings, &CheckedVocabulary { tokenizer: &tokenizer, json })?;
        load::check(&mut built)?;
        let engine = checked_engine(&built)?;
        // The engine of the class takes over the post-processor of the file.
        let processor = tokenizer.get("post_processor");
        let mut backend =
            Backend::new(self.folder, engine, settings.clone(), processor, padding.as_ref())?;
        (recipe.finish)(&mut backend, &settings)?;
        Ok((backend, built["model"].take()))
    }
}

/// The engine of a checked `tokenizer.json`.
pub(super) fn checked_engine(tokenizer: &Value) -> Result<tokenizers::Tokenizer> {
    let engine = hugging_face::build(tokenizer)?;
    hugging_face::check_added_tokens(tokenizer, &engine)?;
    Ok(engine)
}
