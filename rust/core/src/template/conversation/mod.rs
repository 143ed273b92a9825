//! Prepares the messages of a conversation as `transformers` does before it renders them.

mod contents;
pub(super) mod joined;
pub(super) mod json_arguments;
pub(super) mod left_out;
pub(super) mod roles;

use std::borrow::Cow;

use foldhash::fast::RandomState;

use fastpack_template::json::{Json, Map};

use crate::record::{self, Conversation};

/// The keys under which a message's reasoning is given. The first that a message has is used.
pub(crate) const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The keys under which messages hold calls of tools: today's, and those of older formats.
pub(crate) const CALLS: [&str; 3] = ["tool_calls", "function_call", "function_calls"];

/// The keys under which calls hold their arguments.
pub(crate) const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

/// The functions that are called by a value of [`CALLS`].
pub(crate) fn called_functions(calls: &Json) -> impl Iterator<Item = &Map> {
    let calls = match calls {
        Json::List(calls) => &calls[..],
        call => std::slice::from_ref(call),
    };
    calls.iter().filter_map(|call| match call {
        Json::Map(call) => match call.get("function") {
            Some(Json::Map(function)) => Some(&**function),
            _ => Some(&**call),
        },
        _ => None,
    })
}

/// A message as templates see it: without keys whose value is null, and with its reasoning under `thinking`
/// and `reasoning_content`.
fn prepare(message: &Map) -> Cow<'_, Map> {
    let mut message = Cow::Borrowed(message);
    if message.values().any(|value| *value == Json::Null) {
        message.to_mut().retain(|_, value| *value != Json::Null);
    }
    let reasons = message.keys().any(|key| REASONING.contains(&&**key));
    let reasoning = || REASONING.iter().find_map(|name| message.get(*name)).cloned();
    if let Some(reasoning) = reasons.then(reasoning).flatten() {
        let mut aliased = Map::with_capacity_and_hasher(message.len() + 2, RandomState::default());
        aliased.insert("thinking".into(), reasoning.clone());
        for (key, value) in message.iter() {
            aliased.insert(key.clone(), value.clone());
        }
        aliased.insert("reasoning_content".into(), reasoning);
        message = Cow::Owned(aliased);
    }
    message
}

/// True if the assistant wrote a message.
pub(super) fn is_assistant(message: &Map) -> bool {
    matches!(message.get("role"), Some(Json::String(role)) if record::is_assistant(role))
}

/// The last message of the assistant.
pub(super) fn last_turn(messages: &[Cow<'_, Map>]) -> Option<usize> {
    messages.iter().rposition(|message| is_assistant(message))
}

/// True if the last message of the assistant follows another one of it. A template may join them to one turn.
pub(super) fn ends_in_a_run(messages: &[Cow<'_, Map>]) -> bool {
    let last = last_turn(messages);
    last.is_some_and(|last| last > 0 && is_assistant(&messages[last - 1]))
}

/// The messages of a conversation as templates see them.
pub(super) fn prepared(conversation: &Conversation) -> Vec<Cow<'_, Map>> {
    conversation.messages.iter().map(|message| prepare(message)).collect()
}

/// The tools of a conversation, if it has any.
pub(super) fn tools(conversation: &Conversation) -> Option<&Json> {
    conversation.tools.as_ref().filter(|tools| **tools != Json::Null)
}
