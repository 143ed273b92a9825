//! [`Pretrained`]: the tokenizer of a model folder, with its special tokens and chat templates.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::auto::ModelFolderContents;
use super::call_settings::{of_calls, take_sides};
use super::folder_files::FolderFiles;
use super::model_folder::ModelFolder;
use super::names::{BACKEND, unsupported};
use super::settings::Settings;
use super::templates::NamedTemplate;
use super::{auto, classes, conversion, templates};
use crate::error::Result;
use crate::loading::load;
use crate::models::scores;
use crate::tokenizer::Tokenizer;

/// A tokenizer, with the special tokens and chat templates of its model folder.
#[derive(Clone, Debug)]
pub struct Pretrained {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// `special_tokens_map`: pairs such as (`bos_token`, `<s>`), in the order in which templates see them.
    pub special_tokens: Vec<(String, String)>,
    /// Contents of the tokens of `eos_token_id` in the folder's `generation_config.json`; empty if it names none.
    pub stop_tokens: Vec<String>,
    /// The chat templates of the folder; empty if it has none.
    pub chat_templates: Vec<NamedTemplate>,
    /// The class of the folder and its settings for padding and truncation, as a JSON object with `class`,
    /// `model_input_names`, `model_max_length`, `padding_side` and `truncation_side`; `{}` if there is no
    /// folder.
    pub call: String,
    /// The transformers that built it, if fastpack did not.
    pub built_by: Option<BuiltBy>,
}

/// The identity of a tokenizer that transformers built: another version may build another one of the same folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltBy {
    /// The version of transformers.
    pub transformers: String,
    /// The BLAKE3 hash of the `tokenizer.json` that it built, in hexadecimal.
    pub tokenizer_json: String,
}

impl Pretrained {
    /// Reads a model folder as `AutoTokenizer.from_pretrained` does. Fails with [`Error::ForeignClass`](crate::error::Error::ForeignClass) if only
    /// transformers knows the rules of its class; [`Self::from_built`] then takes what it builds.
    pub fn from_dir(dir: &Path) -> Result<Self> {
        Self::from_named_dir(dir, dir)
    }

    /// Reads the folder `dir`, which the caller calls `name`: a repository such as `google/umt5-small`.
    ///
    /// `transformers` treats a few repositories by their name; for all others this is [`Self::from_dir`].
    pub fn from_named_dir(dir: &Path, name: &Path) -> Result<Self> {
        let folder = ModelFolder::new(dir);
        let config = folder.object("config.json")?.unwrap_or_default();
        let tokenizer_config = folder.object("tokenizer_config.json")?.unwrap_or_default();
        check_versions(&tokenizer_config)?;
        let chat_templates = templates::read(&folder, &tokenizer_config)?;
        let file = folder.text(load::FILE)?;
        let class = auto::class(&ModelFolderContents {
            name,
            config: &config,
            tokenizer_config: &tokenizer_config,
            byte_level: file.as_ref().is_some_and(|json| json.contains("\"ByteLevel\"")),
            folder: &folder,
        })?;
        let recipe = classes::recipe(&class);
        if recipe.is_none() && class != BACKEND {
            return Err(folder.foreign(&class));
        }
        let (json, converted) = if let Some(json) = file {
            (json, None)
        } else {
            let settings = Settings::gather(&folder, tokenizer_config.clone(), &Value::Null, true)?;
            let converted = conversion::read(&folder, &class, &settings)?.ok_or_else(|| {
                let reason = format!(
                    "is missing, and what `{class}` reads instead is not here or not known to fastpack; save one \
                     with `AutoTokenizer.from_pretrained(...).save_pretrained(...)`"
                );
                folder.malformed(load::FILE, reason)
            })?;
            (converted.file.to_string(), Some(converted))
        };
        // Other classes have the scores from Python, which reads them as they are written.
        let published = (class == BACKEND).then(|| scores::as_published(&json)).flatten();
        let json = published.unwrap_or(json);
        let mut call = of_calls(&class, &tokenizer_config);
        let files = FolderFiles { folder: &folder, recipe, converted, config: tokenizer_config };
        // Most tokenizers can be built without their merges, in a fraction of the time. Otherwise the whole
        // file is read, which also finds and reports its faults.
        let quick = load::parse_without_merges(&json).and_then(|outline| {
            take_sides(&mut call, &outline);
            let (backend, model) = files.backend(outline, &json).ok()?;
            let special_tokens = backend.special_tokens_map();
            let tokenizer = Tokenizer::from_outline(json.clone(), &model, &backend.engine)?;
            Some((tokenizer, special_tokens))
        });
        let (tokenizer, special_tokens) = if let Some(found) = quick {
            found
        } else {
            let whole = load::parse(&json)?;
            take_sides(&mut call, &whole);
            let (backend, model) = files.backend(whole, &json)?;
            let special_tokens = backend.special_tokens_map();
            (Tokenizer::from_engine(&model, backend.engine), special_tokens)
        };
        let stop_tokens = stop_tokens(&folder, &tokenizer)?;
        let call = call.to_string();
        Ok(Self { tokenizer, special_tokens, stop_tokens, chat_templates, call, built_by: None })
    }

    /// The token that fills up rows (`pad_token`), if the tokenizer names one.
    pub fn pad_token(&self) -> Option<&str> {
        self.special_token("pad_token")
    }

    /// The token that ends a text (`eos_token`), if the tokenizer names one.
    pub fn eos_token(&self) -> Option<&str> {
        self.special_token("eos_token")
    }

    /// The content of a named special token.
    pub fn special_token(&self, name: &str) -> Option<&str> {
        self.special_tokens.iter().find(|(key, _)| key == name).map(|(_, content)| content.as_str())
    }
}

/// The tokens of `eos_token_id` in `generation_config.json`, one or a list.
pub(super) fn stop_tokens(folder: &ModelFolder<'_>, tokenizer: &Tokenizer) -> Result<Vec<String>> {
    let config = folder.object("generation_config.json")?.unwrap_or_default();
    let ids = match config.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.clone(),
        Some(id) => vec![id.clone()],
        None => Vec::new(),
    };
    let ids = ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok());
    Ok(ids.filter_map(|id| tokenizer.id_to_token(id)).collect())
}

/// Refuses a folder that has a `tokenizer.json` for each version of transformers.
fn check_versions(config: &Map<String, Value>) -> Result<()> {
    let files = config.get("fast_tokenizer_files").and_then(Value::as_array);
    let others =
        files.map_or(&[][..], Vec::as_slice).iter().any(|file| file.as_str() != Some(load::FILE));
    if others {
        return Err(unsupported(
            BACKEND,
            "`fast_tokenizer_files` lists a tokenizer.json for each version of transformers",
        ));
    }
    Ok(())
}
