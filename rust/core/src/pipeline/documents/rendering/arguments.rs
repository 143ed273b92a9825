//! Decodes arguments of calls that are JSON text, where the chat template encodes them a second time.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use crate::record::{Conversation, FastReader, parse_json};
use crate::report::ledger::Note;
use crate::template::{ChatTemplate, NoteOptions};

/// The key of the calls of a message.
const CALLS: &str = "tool_calls";

/// True if a conversation that the fast reader has read has calls.
pub(crate) fn has_calls(reader: &FastReader) -> bool {
    reader.value_places().flatten().any(|(_, key)| key == CALLS)
}

/// Decodes the arguments of a conversation if the template encodes some of them a second time.
pub(crate) fn decode_arguments(template: &ChatTemplate, conversation: &mut Conversation) {
    let messages: Vec<Arc<Map>> = conversation.messages.iter().map(decoded).collect();
    if messages == conversation.messages {
        return;
    }
    let notes = template.turn_notes(conversation, NoteOptions::TEXTS, &|_| true);
    if notes.has(Note::EncodedArguments) {
        conversation.messages = messages;
    }
}

/// Decodes the arguments of a prompt and of its answers if the template encodes some of them a second time.
pub(crate) fn decode_answers(
    template: &ChatTemplate,
    prompt: &mut Conversation,
    answers: &mut [Vec<Arc<Map>>],
) {
    decode_arguments(template, prompt);
    for answer in answers {
        let messages = [&prompt.messages[..], answer].concat();
        let mut whole = Conversation { messages, ..prompt.clone() };
        decode_arguments(template, &mut whole);
        *answer = whole.messages.split_off(prompt.messages.len());
    }
}

/// The message with decoded arguments.
fn decoded(message: &Arc<Map>) -> Arc<Map> {
    let Some(Json::List(calls)) = message.get(CALLS) else { return Arc::clone(message) };
    let mut made = Map::clone(message);
    let calls = calls.iter().map(decoded_call).collect();
    made.insert(CALLS.into(), Json::List(Arc::new(calls)));
    Arc::new(made)
}

/// A call, or its function, with decoded arguments: those that are the text of an object.
fn decoded_call(call: &Json) -> Json {
    let Json::Map(call) = call else { return call.clone() };
    let made = call.iter().map(|(key, value)| {
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
    Json::Map(Arc::new(made.collect()))
}
