//! Decodes arguments of calls that are JSON text, where the chat template encodes them a second time.

use std::sync::Arc;

use fastpack_template::json::Map;

use crate::record::{Conversation, ReplayReader};
use crate::report::ledger::Note;
use crate::template::{CALLS, ChatTemplate, NoteOptions, with_objects};

/// True if a conversation that the fast reader has read has calls.
pub(crate) fn has_calls(reader: &ReplayReader) -> bool {
    reader.value_places().flatten().any(|(_, key)| key == CALLS[0])
}

/// Decodes the arguments of a conversation if the template encodes some of them a second time, or takes only objects.
pub(crate) fn decode_arguments(template: &ChatTemplate, conversation: &mut Conversation) {
    let Some(other) = with_objects(conversation) else { return };
    // A template that refuses lists of texts is asked as it will be rendered.
    let joined = template.joined(conversation);
    let checked = joined.as_ref().unwrap_or(conversation);
    let notes = template.turn_notes(checked, NoteOptions::TEXTS, &|_| true);
    if notes.has(Note::EncodedArguments) || template.takes_only_objects(conversation) {
        *conversation = other;
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
