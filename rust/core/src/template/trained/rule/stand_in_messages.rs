//! Messages that take the place of another one, to tell its words from the markup of the template around them.

use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use crate::record::texts_in;
use crate::template::conversation::{CALLS, REASONING, called_functions, left_out};

/// Bytes of the shortest word by which a call is known.
const SHORTEST_WORD: usize = 3;

fn text(text: &str) -> Json {
    Json::String(text.into())
}

fn map<const N: usize>(entries: [(&str, Json); N]) -> Map {
    entries.into_iter().map(|(key, value)| (Arc::from(key), value)).collect()
}

pub(in crate::template::trained) fn has_calls(message: &Map) -> bool {
    matches!(message.get(CALLS[0]), Some(Json::List(calls)) if !calls.is_empty())
}

/// The message without its calls of tools; `None` if it has none.
///
/// In a message without content and reasoning, every other field with a text counts as calls: formats name that field
/// differently.
pub(in crate::template::trained) fn without_calls(message: &Map) -> Option<Map> {
    let keys = ["content"].into_iter().chain(REASONING);
    let is_silent = !keys.clone().any(|key| message.get(key).is_some_and(left_out::has_text));
    let is_call = |key: &str, value: &Json| {
        let is_other = is_silent && !matches!(key, "role" | "name");
        (is_other || CALLS.contains(&key)) && left_out::has_text(value)
    };
    let mut silent = message.clone();
    silent.retain(|key, value| !is_call(key, value));
    (silent.len() < message.len()).then_some(silent)
}

/// A call of the function `name` with one argument.
fn call(name: &str) -> Json {
    let arguments = Json::Map(Arc::new(map([("q", text("x"))])));
    let function = map([("name", text(name)), ("arguments", arguments)]);
    Json::Map(Arc::new(map([
        ("id", text("abcdefgh0")),
        ("type", text("function")),
        ("function", Json::Map(Arc::new(function))),
    ])))
}

/// The longest word of each text in the arguments of calls.
pub(super) fn argument_words(calls: &Json) -> Vec<&str> {
    let mut texts = Vec::new();
    for arguments in called_functions(calls).filter_map(|function| function.get("arguments")) {
        texts_in(arguments, &mut texts);
    }
    let words = texts.into_iter().filter_map(|text| {
        text.split(|c: char| !c.is_ascii_alphanumeric()).max_by_key(|word| word.len())
    });
    words.filter(|word| word.len() >= SHORTEST_WORD).collect()
}

/// True if a text of a value contains a word.
pub(super) fn has_text(value: &Json, word: &str) -> bool {
    let mut texts = Vec::new();
    texts_in(value, &mut texts);
    texts.iter().any(|text| text.contains(word))
}

/// Messages of the same role, and by the same name, that have little else in common: their texts share the header of
/// the role and nothing else.
pub(super) fn other_kinds(message: &Map) -> [Map; 4] {
    let mut bare = message.clone();
    for words in ["content", "tool_calls"].into_iter().chain(REASONING) {
        bare.shift_remove(words);
    }
    let with_content = |content: &str| {
        let mut changed = bare.clone();
        changed.insert("content".into(), text(content));
        changed
    };
    let mut calling = with_content("");
    calling.insert("tool_calls".into(), Json::List(Arc::new(vec![call("zz")])));
    let mut reasoning = with_content("0");
    for name in REASONING {
        reasoning.insert(name.into(), text("Zz"));
    }
    [with_content("0"), with_content("Zz"), calling, reasoning]
}

/// The message with every string of its own replaced by another: its text shares the markup behind the words.
pub(super) fn same_kind(message: &Map) -> Map {
    let mut other = message.clone();
    replace_words(&mut other);
    if let Some(Json::List(parts)) = other.get("content") {
        let parts = parts.iter().map(|part| match part {
            Json::Map(part) => {
                let mut part = (**part).clone();
                replace_words(&mut part);
                Json::Map(Arc::new(part))
            }
            part => part.clone(),
        });
        let parts = Json::List(Arc::new(parts.collect()));
        other.insert("content".into(), parts);
    }
    if let Some(Json::List(calls)) = other.get("tool_calls") {
        let calls = Json::List(Arc::new(calls.iter().map(other_call).collect()));
        other.insert("tool_calls".into(), calls);
    }
    other
}

/// Replaces the words of a message, or of one of its parts.
fn replace_words(message: &mut Map) {
    for name in ["content", "text"].into_iter().chain(REASONING) {
        let Some(Json::String(words)) = message.get(name) else { continue };
        let Some(last) = words.trim_end().chars().next_back() else { continue };
        message.insert(name.into(), text(if last == '0' { "1" } else { "0" }));
    }
}

/// A call of another function with other arguments.
pub(super) fn other_call(call: &Json) -> Json {
    let Json::Map(call) = call else { return call.clone() };
    let renamed = |function: &Map| {
        let mut function = function.clone();
        if let Some(Json::String(name)) = function.get("name") {
            let name = text(&format!("{name}_"));
            function.insert("name".into(), name);
        }
        let arguments = match function.get("arguments") {
            Some(Json::String(_)) => text("{\"q\": 0}"),
            _ => Json::Map(Arc::new(map([("q", Json::Int(0))]))),
        };
        function.insert("arguments".into(), arguments);
        Json::Map(Arc::new(function))
    };
    match call.get("function") {
        Some(Json::Map(function)) => {
            let mut other = (**call).clone();
            other.insert("function".into(), renamed(function));
            Json::Map(Arc::new(other))
        }
        _ => renamed(call),
    }
}
