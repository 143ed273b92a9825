//! Joins contents that are lists of texts, for conversations that a template refuses with the lists.
//!
//! `transformers` gives a template the lists as they are, and so does fastpack: a template may walk through them, or
//! print them as Python prints a list. Only where it fails, the texts are joined.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::template::chat::ChatTemplate;

/// The keys of a part that is only text.
const PART: [&str; 2] = ["type", "text"];

/// The types of parts that are only text.
const TEXT: [&str; 3] = ["text", "input_text", "output_text"];

impl ChatTemplate {
    /// Renders a conversation as it is, or with its lists of texts joined if the template refuses it with them. Also
    /// returns whether they were joined.
    pub fn with_lists<T>(
        &self,
        conversation: &Conversation,
        render: impl Fn(&Conversation) -> Result<T, Fault>,
    ) -> Result<(T, bool), Fault> {
        let refused = match render(conversation) {
            Ok(rendered) => return Ok((rendered, false)),
            Err(fault) => fault,
        };
        match self.joined(conversation) {
            Some(joined) => render(&joined).map(|rendered| (rendered, true)),
            None => Err(refused),
        }
    }

    /// The conversation with its lists of texts joined, if it has such and the template refuses it with them.
    pub fn joined(&self, conversation: &Conversation) -> Option<Conversation> {
        let messages = joined_messages(&conversation.messages)?;
        let refused = self.render(conversation).err()?;
        (refused.reason == Reason::Template)
            .then(|| Conversation { messages, ..conversation.clone() })
    }
}

/// Messages with their lists of texts joined; `None` if there are no such lists.
pub fn joined_messages(messages: &[Arc<Map>]) -> Option<Vec<Arc<Map>>> {
    let texts: Vec<Option<String>> = messages.iter().map(|message| joined_text(message)).collect();
    if texts.iter().all(Option::is_none) {
        return None;
    }
    let joined = messages.iter().zip(texts).map(|(message, text)| match text {
        Some(text) => Arc::new(with_content(message, text)),
        None => Arc::clone(message),
    });
    Some(joined.collect())
}

/// The joined text of a message's parts; `None` where a part is more than text.
fn joined_text(message: &Map) -> Option<String> {
    let Some(Json::List(parts)) = message.get("content") else { return None };
    let texts = parts.iter().map(|part| match part {
        Json::String(text) => Some(text),
        Json::Map(part) if part.keys().all(|key| PART.contains(&&**key)) => {
            let is_text = match part.get("type") {
                None => true,
                Some(Json::String(kind)) => TEXT.contains(&&**kind),
                Some(_) => false,
            };
            match part.get("text") {
                Some(Json::String(text)) if is_text => Some(text),
                _ => None,
            }
        }
        _ => None,
    });
    texts.map(|text| text.map(|text| &**text)).collect()
}

/// The message with another content in the same place.
fn with_content(message: &Map, content: String) -> Map {
    let content = Json::String(content.into());
    let entries = message.iter().map(|(key, value)| {
        let value = if **key == *"content" { &content } else { value };
        (Arc::clone(key), value.clone())
    });
    entries.collect()
}
