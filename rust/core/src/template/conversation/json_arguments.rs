//! Arguments of calls that are JSON text, where a template takes objects.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use crate::record::{Conversation, parse_json};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::CALLS;

impl ChatTemplate {
    /// True if the template refuses a conversation for arguments that are JSON text, and renders it with objects in their place.
    pub(crate) fn takes_only_objects(&self, conversation: &Conversation) -> bool {
        let renders = |it: &Conversation| self.with_lists(it, |it| self.render(it)).is_ok();
        with_objects(conversation).is_some_and(|other| !renders(conversation) && renders(&other))
    }
}

/// The conversation with objects in place of arguments that are the JSON text of one; `None` if it has no such arguments.
pub fn with_objects(conversation: &Conversation) -> Option<Conversation> {
    let messages: Vec<Arc<Map>> = conversation.messages.iter().map(decoded).collect();
    (messages != conversation.messages).then(|| Conversation { messages, ..conversation.clone() })
}

/// The message with decoded arguments.
fn decoded(message: &Arc<Map>) -> Arc<Map> {
    let Some(Json::List(calls)) = message.get(CALLS[0]) else { return Arc::clone(message) };
    let mut changed = Map::clone(message);
    let calls = calls.iter().map(decoded_call).collect();
    changed.insert(CALLS[0].into(), Json::List(Arc::new(calls)));
    Arc::new(changed)
}

/// A call, or its function, with decoded arguments: those that are the text of an object.
fn decoded_call(call: &Json) -> Json {
    let Json::Map(call) = call else { return call.clone() };
    let entries = call.iter().map(|(key, value)| {
        let value = match (&**key, value) {
            ("function", function) => decoded_call(function),
            ("arguments", Json::String(text)) => match parse_json(text.as_bytes()) {
                Ok(object @ Json::Map(_)) => object,
                _ => value.clone(),
            },
            _ => value.clone(),
        };
        (Arc::clone(key), value)
    });
    Json::Map(Arc::new(entries.collect()))
}
