//! The fields of a conversation that a template leaves out of its text.
//!
//! A value is left out if it holds a text that is not blank, and none of its texts is printed: as it is, in
//! part, or changed.

use std::borrow::Cow;
use std::sync::Arc;

use fastpack_template::PrintedInputs;
use fastpack_template::json::{Json, Map};

use super::tools;
use crate::record::Conversation;

/// The fields of a conversation that its text leaves out, each once. [`field_name`] makes the names.
pub type LeftOut = Vec<Arc<str>>;

/// The field of the tools.
pub(crate) const TOOLS: &str = "tools";

/// The key of a message that says who speaks. Templates compare it, and print words of their own.
const ROLE: &str = "role";

/// The name of a field of a message: its key, and for the content also the role.
pub(crate) fn field_name(key: &str, role: &str) -> Arc<str> {
    if key == "content" { format!("{role} {key}").into() } else { key.into() }
}

/// Adds a field, unless it is there.
pub(crate) fn add(fields: &mut LeftOut, field: &Arc<str>) {
    if !fields.contains(field) {
        fields.push(Arc::clone(field));
    }
}

/// True if a value holds a text that is not blank.
pub(crate) fn has_text(value: &Json) -> bool {
    match value {
        Json::String(text) => !text.trim().is_empty(),
        Json::List(items) => items.iter().any(has_text),
        Json::Map(map) => map.values().any(has_text),
        _ => false,
    }
}

/// The parts of a content that is a list of parts, and their numbers.
pub(crate) fn parts<'v>(key: &str, value: &'v Json) -> impl Iterator<Item = (usize, &'v Json)> {
    let items = match value {
        Json::List(items) if key == "content" => items.as_slice(),
        _ => &[],
    };
    items.iter().enumerate().filter(|(_, part)| matches!(part, Json::Map(_)))
}

/// The type of a part.
const TYPE: &str = "type";

/// True if a part of a content holds a text that is not blank, beside its type.
pub(crate) fn part_has_text(part: &Json) -> bool {
    let Json::Map(part) = part else { return false };
    part.iter().any(|(key, value)| **key != *TYPE && has_text(value))
}

/// The name of a part that is left out of a content whose other parts are printed, by its type and the role.
pub(crate) fn part_name(part: &Json, role: &str) -> Arc<str> {
    let kind = match part {
        Json::Map(part) => part.get(TYPE),
        _ => None,
    };
    match kind {
        Some(Json::String(kind)) => format!("{kind} in {role} content").into(),
        _ => format!("part of {role} content").into(),
    }
}

/// True if a template prints a message's key as text of the conversation.
fn is_field(key: &str) -> bool {
    key != ROLE
}

/// Adds the fields of a conversation that `shown` does not hold.
pub(crate) fn not_shown(
    conversation: &Conversation,
    prepared: &[Cow<'_, Map>],
    shown: &PrintedInputs,
    fields: &mut LeftOut,
) {
    let is_whole = |at: usize| shown.holds_whole(&prepared[at]);
    let is_printed = |value: &Json| shown.holds(value);
    collect(conversation, is_whole, |value| shown.holds_list(value), is_printed, fields);
}

/// Adds the fields of a conversation without a word in `text`.
pub(crate) fn not_in_text(conversation: &Conversation, text: &str, fields: &mut LeftOut) {
    collect(conversation, |_| false, |_| false, |value| occurs(value, text), fields);
}

/// Calls `found` with the message and the key of each value that `shown` does not hold, and with the number of the part
/// where it holds others of a content; with no message for the tools.
pub(crate) fn unprinted(
    conversation: &Conversation,
    prepared: &[Cow<'_, Map>],
    shown: &PrintedInputs,
    mut found: impl FnMut(Option<usize>, &str, Option<usize>),
) {
    for (at, (message, prepared)) in conversation.messages.iter().zip(prepared).enumerate() {
        if shown.holds_whole(prepared) {
            continue;
        }
        for (key, value) in message.iter() {
            if is_field(key) && !shown.holds(value) {
                found(Some(at), key, None);
            } else if !shown.holds_list(value) {
                for (number, part) in parts(key, value) {
                    if !shown.holds(part) {
                        found(Some(at), key, Some(number));
                    }
                }
            }
        }
    }
    if tools(conversation).is_some_and(|tools| !shown.holds(tools)) {
        found(None, TOOLS, None);
    }
}

/// Adds the fields that have text and are not printed.
fn collect(
    conversation: &Conversation,
    is_whole: impl Fn(usize) -> bool,
    is_whole_list: impl Fn(&Json) -> bool,
    is_printed: impl Fn(&Json) -> bool,
    fields: &mut LeftOut,
) {
    for (at, message) in conversation.messages.iter().enumerate() {
        for (key, value) in message.iter() {
            if !is_field(key) || is_whole(at) {
                continue;
            }
            let role = match message.get(ROLE) {
                Some(Json::String(role)) => &**role,
                _ => "",
            };
            if is_printed(value) {
                for (_, part) in parts(key, value).filter(|_| !is_whole_list(value)) {
                    if part_has_text(part) && !is_printed(part) {
                        add(fields, &part_name(part, role));
                    }
                }
            } else if has_text(value) {
                add(fields, &field_name(key, role));
            }
        }
    }
    if tools(conversation).is_some_and(|tools| has_text(tools) && !is_printed(tools)) {
        add(fields, &TOOLS.into());
    }
}

/// True if a word of a value occurs in a text. `transformers` does not say which values it printed.
fn occurs(value: &Json, text: &str) -> bool {
    match value {
        Json::String(own) => {
            let words = own.split(|c: char| !c.is_alphanumeric());
            words.max_by_key(|word| word.len()).is_some_and(|word| {
                if word.is_empty() { text.contains(own.trim()) } else { text.contains(word) }
            })
        }
        Json::List(items) => items.iter().any(|item| occurs(item, text)),
        Json::Map(map) => map.values().any(|item| occurs(item, text)),
        _ => false,
    }
}
