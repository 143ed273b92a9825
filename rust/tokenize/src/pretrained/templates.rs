//! Reads the chat templates of a model folder, in the order in which `transformers` prefers them.

use serde_json::{Map, Value};

use super::model_folder::ModelFolder;
use crate::error::Result;

/// A chat template of a model folder, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTemplate {
    /// `default`, or the name under which the folder lists it.
    pub name: String,
    /// The Jinja text.
    pub source: String,
}

/// Reads the chat templates. Template files replace all templates of `tokenizer_config.json`.
pub(super) fn read(
    folder: &ModelFolder<'_>,
    config: &Map<String, Value>,
) -> Result<Vec<NamedTemplate>> {
    let mut files = Vec::new();
    if let Some(source) = folder.text("chat_template.jinja")? {
        files.push(NamedTemplate { name: "default".to_owned(), source });
    }
    for file in folder.names_in("additional_chat_templates", ".jinja")? {
        let name = file.trim_end_matches(".jinja").to_owned();
        let Some(source) = folder.text(&format!("additional_chat_templates/{file}"))? else {
            continue;
        };
        files.retain(|template| template.name != name);
        files.push(NamedTemplate { name, source });
    }
    if !files.is_empty() {
        return Ok(files);
    }
    from_config(config.get("chat_template")).ok_or_else(|| {
        folder.malformed(
            "tokenizer_config.json",
            "`chat_template` must be a string, or a list of objects with `name` and `template`",
        )
    })
}

fn from_config(value: Option<&Value>) -> Option<Vec<NamedTemplate>> {
    let named = |name: &str, source: &str| NamedTemplate {
        name: name.to_owned(),
        source: source.to_owned(),
    };
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::String(source)) => Some(vec![named("default", source)]),
        Some(Value::Object(templates)) => {
            templates.iter().map(|(name, source)| Some(named(name, source.as_str()?))).collect()
        }
        Some(Value::Array(list)) => {
            let mut templates: Vec<NamedTemplate> = Vec::new();
            for entry in list {
                let (name, source) =
                    (entry.get("name")?.as_str()?, entry.get("template")?.as_str()?);
                match templates.iter_mut().find(|template| template.name == name) {
                    Some(earlier) => source.clone_into(&mut earlier.source),
                    None => templates.push(named(name, source)),
                }
            }
            Some(templates)
        }
        Some(_) => None,
    }
}
