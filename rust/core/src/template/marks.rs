//! Marks around what messages say, so that a second render shows where each of them ended up.
//!
//! A mark is a private-use character that tells the number of the message. It stands inside of the whitespace at the
//! ends of a text, so that templates that trim see the same; where a template looks at a text in a way that the marks
//! change, the render without its marks differs from the plain one, and the marks prove nothing.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::text::is_space;
use crate::record::value::{Map, Value as Json};

/// The first of 65,534 private-use characters.
const FIRST: u32 = 0xF_0000;

/// How many messages can be marked.
const MOST: usize = 65_534;

/// The keys of a message whose texts are marked.
pub(super) const MARKED: [&str; 4] = ["content", "reasoning_content", "thinking", "reasoning"];

/// The mark of a message.
fn mark(message: usize) -> Option<char> {
    (message < MOST)
        .then(|| u32::try_from(message).ok().and_then(|number| char::from_u32(FIRST + number)))
        .flatten()
}

/// The number of the message whose mark this is.
fn number(c: char) -> Option<usize> {
    u32::from(c)
        .checked_sub(FIRST)
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| *number < MOST)
}

/// Whether a text has characters that could be taken for marks.
pub(super) fn has_marks(text: &str) -> bool {
    // All of them, and few others, begin with this byte.
    text.as_bytes().contains(&0xF3) && text.chars().any(|c| number(c).is_some())
}

/// The messages with marks; nothing if there are too many of them.
pub(super) fn mark_all<'r>(messages: &[Cow<'r, Map>]) -> Option<Vec<Cow<'r, Map>>> {
    let marked = messages.iter().enumerate().map(|(number, message)| {
        let mut message = message.clone().into_owned();
        for (key, value) in &mut message {
            *value = marked(key, value, number)?;
        }
        Some(Cow::Owned(message))
    });
    marked.collect()
}

/// What stands under a key of a message, with the marks of the message; nothing if it is too far back.
pub(super) fn marked(key: &str, value: &Json, message: usize) -> Option<Json> {
    let mark = mark(message)?;
    Some(match key {
        key if MARKED.contains(&key) => mark_content(value, mark),
        "tool_calls" => mark_calls(value, mark),
        _ => value.clone(),
    })
}

/// A text with a mark at either end, or the same text if it is blank.
fn mark_text(text: &Arc<str>, mark: char) -> Json {
    let inner = text.trim_matches(is_space);
    if inner.is_empty() {
        return Json::String(Arc::clone(text));
    }
    let from = text.len() - text.trim_start_matches(is_space).len();
    let to = from + inner.len();
    Json::String(format!("{}{mark}{inner}{mark}{}", &text[..from], &text[to..]).into())
}

/// Marks a text, or the texts of its parts.
fn mark_content(content: &Json, mark: char) -> Json {
    match content {
        Json::String(text) => mark_text(text, mark),
        Json::List(parts) => Json::List(Arc::new(
            parts
                .iter()
                .map(|part| match part {
                    Json::Map(part) => {
                        let mut part = (**part).clone();
                        if let Some(Json::String(text)) = part.get("text") {
                            let text = mark_text(text, mark);
                            part.insert("text".into(), text);
                        }
                        Json::Map(Arc::new(part))
                    }
                    other => other.clone(),
                })
                .collect(),
        )),
        other => other.clone(),
    }
}

/// Marks names and arguments of tool calls, but not their ids and types, which templates look at.
fn mark_calls(calls: &Json, mark: char) -> Json {
    match calls {
        Json::List(calls) => {
            Json::List(Arc::new(calls.iter().map(|call| mark_calls(call, mark)).collect()))
        }
        Json::Map(call) => {
            let mut marked = (**call).clone();
            for (key, value) in &mut marked {
                match &**key {
                    "function" => *value = mark_calls(value, mark),
                    "arguments" => *value = mark_leaves(value, mark),
                    _ => {}
                }
            }
            // A name is but the last resort, since templates print it again where the tool answers.
            if marked == **call
                && let Some(name) = marked.get_mut("name")
            {
                *name = mark_leaves(name, mark);
            }
            Json::Map(Arc::new(marked))
        }
        other => other.clone(),
    }
}

fn mark_leaves(value: &Json, mark: char) -> Json {
    match value {
        Json::String(text) => mark_text(text, mark),
        Json::List(items) => {
            Json::List(Arc::new(items.iter().map(|item| mark_leaves(item, mark)).collect()))
        }
        Json::Map(map) => Json::Map(Arc::new(
            map.iter().map(|(key, item)| (Arc::clone(key), mark_leaves(item, mark))).collect(),
        )),
        other => other.clone(),
    }
}

/// Takes the marks out of a text: what is left, and for each mark its message and place there.
pub(super) fn unmark(text: &str) -> (String, Vec<(usize, usize)>) {
    let mut plain = String::with_capacity(text.len());
    let mut places = Vec::new();
    for c in text.chars() {
        match number(c) {
            Some(message) => places.push((message, plain.len())),
            None => plain.push(c),
        }
    }
    (plain, places)
}

/// From the first to the last mark of each of `count` messages.
pub(super) fn extents(places: &[(usize, usize)], count: usize) -> Vec<Option<Range<usize>>> {
    let mut extents = vec![None; count];
    for (message, at) in places {
        if let Some(extent) = extents.get_mut(*message) {
            let first: usize = extent.as_ref().map_or(*at, |range: &Range<usize>| range.start);
            *extent = Some(first..*at);
        }
    }
    extents
}
