//! The variables that a chat template sees: messages, tools, keyword arguments and special tokens.

use std::borrow::Cow;
use std::sync::Arc;

use fastpack_template::Input;
use fastpack_template::json::{Json, Map};

use super::chat::ChatTemplate;
use super::conversation::tools;
use crate::record::{Conversation, write_json};

/// Parameters of `apply_chat_template` that a template sees under the same names.
const ADD_GENERATION_PROMPT: &str = "add_generation_prompt";
const DOCUMENTS: &str = "documents";

impl ChatTemplate {
    /// The value of a variable: of the record's own, or else of those that the caller gives for all records.
    pub(super) fn keyword<'r>(
        &'r self,
        conversation: &'r Conversation,
        name: &str,
    ) -> Option<&'r Json> {
        conversation.template_kwargs.get(name).or_else(|| self.context.kwargs.get(name))
    }

    /// The value of an input of the template.
    pub(super) fn input<'r>(
        &'r self,
        prepared: &'r [Cow<'_, Map>],
        conversation: &'r Conversation,
        add_generation_prompt: Option<bool>,
        name: &str,
    ) -> Option<Input<'r>> {
        match name {
            "messages" => Some(Input::Objects(prepared)),
            "tools" => Some(tools(conversation).map_or(Input::None, Input::Json)),
            ADD_GENERATION_PROMPT if add_generation_prompt.is_some() => {
                add_generation_prompt.map(Input::Bool)
            }
            _ => match (self.keyword(conversation, name), name) {
                (Some(value), _) => Some(Input::Json(value)),
                (None, DOCUMENTS) => Some(Input::None),
                (None, ADD_GENERATION_PROMPT) => Some(Input::Bool(false)),
                (None, _) => {
                    let tokens = &self.context.special_tokens;
                    let token = tokens.iter().find(|(known, _)| known == name);
                    token.map(|(_, content)| Input::Text(content))
                }
            },
        }
    }

    /// True if the template reads a variable. The source of a template that is not compiled is searched for its name.
    pub fn reads_variable(&self, name: &str) -> bool {
        match self.program.as_ref() {
            Ok(program) => program.reads(name),
            Err(_) => self.source.contains(name),
        }
    }

    /// The request to a rendering process, as JSON.
    pub(super) fn request(
        &self,
        prepared: &[Cow<'_, Map>],
        conversation: &Conversation,
        add_generation_prompt: Option<bool>,
    ) -> Vec<u8> {
        let messages = prepared.iter().map(|message| Json::Map(Arc::new((**message).clone())));
        let prompt = add_generation_prompt.map(Json::Bool);
        let keyword = |name: &str| self.keyword(conversation, name).cloned();
        let text = |text: &String| Json::String(text.as_str().into());
        let tokens = self.context.special_tokens.iter();
        let tokens = tokens.map(|(name, content)| (name.as_str().into(), text(content)));
        let kwargs = [&self.context.kwargs, &conversation.template_kwargs].into_iter().flatten();
        let mut variables: Map =
            tokens.chain(kwargs.map(|(name, value)| (Arc::clone(name), value.clone()))).collect();
        variables.shift_remove(ADD_GENERATION_PROMPT);
        variables.shift_remove(DOCUMENTS);
        let request: Map = [
            ("messages", Json::List(Arc::new(messages.collect()))),
            ("tools", tools(conversation).cloned().unwrap_or(Json::Null)),
            (DOCUMENTS, keyword(DOCUMENTS).unwrap_or(Json::Null)),
            (
                ADD_GENERATION_PROMPT,
                prompt.or_else(|| keyword(ADD_GENERATION_PROMPT)).unwrap_or(Json::Bool(false)),
            ),
            ("variables", Json::Map(Arc::new(variables))),
        ]
        .map(|(name, value)| (Arc::from(name), value))
        .into_iter()
        .collect();
        let mut bytes = Vec::new();
        write_json(&Json::Map(Arc::new(request)), &mut bytes);
        bytes
    }
}
