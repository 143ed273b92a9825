//! A hash of the fields that the shape of a record reads: the same for equal records in any form.
//!
//! A line, a row, cells and an object of Python of the same record have the same hash. The order of keys, fields that the
//! shape does not read, the names of the fields and nulls do not count. A number counts by its value, and messages of
//! `from` and `value` as those of `role` and `content`.

use arrow::datatypes::ToByteSlice;
use twox_hash::XxHash64;

use super::parsing::json;
use super::shape::Shape;
use super::shapes::messages::ROLES;
use super::shapes::record_tokens::RecordTokens;
use crate::config::Part;
use crate::config::inputs::fields;
use crate::util::random::{STEP, mix};
use fastpack_template::json::{Json, Map};

/// The hashes of a null in a list, of a list and of an object before their items.
const NULL: u64 = 1;
const LIST: u64 = 2;
const MAP: u64 = 3;
const NUMBER: u64 = 4;

/// The hash of a record of this shape that is no ids.
pub(super) fn of_record(record: &Map, shape: &Shape) -> u64 {
    let parts = shape.parts_read(record).map(|(part, field)| {
        let value = record.get(field).unwrap_or(&Json::Null);
        of_part(part, value)
    });
    let kwargs = record.get(fields::TEMPLATE_KWARGS).map_or(0, of_kwargs);
    parts.fold(kwargs, u64::wrapping_add)
}

/// The hash of a record that is a text.
pub(crate) fn of_text(text: &str) -> u64 {
    if text.trim().is_empty() { 0 } else { entry(Part::Text.name(), of_string(text)) }
}

/// The hash of a record that is ids.
pub(super) fn of_tokens(tokens: &RecordTokens) -> u64 {
    let RecordTokens { ids, trained } = tokens;
    let ids = XxHash64::oneshot(0, ids.to_byte_slice());
    let runs = trained.iter().flatten();
    let numbers = runs.flat_map(|run| [run.start, run.end, run.weight.to_bits()]);
    numbers.fold(ids, |hash, number| next(hash, u64::from(number)))
}

/// The hash of a conversation: of its tools and arguments, and of the sums of the [entries](entry) of its messages.
pub(super) fn of_messages(others: u64, messages: impl Iterator<Item = u64>) -> u64 {
    entry(Part::Messages.name(), of_list(messages.map(of_entries))).wrapping_add(others)
}

/// The hash of a part of a record; 0 for a blank or absent one.
pub(super) fn of_part(part: Part, value: &Json) -> u64 {
    let unfolded = match value {
        Json::Null => return 0,
        Json::String(text) if text.trim().is_empty() => return 0,
        Json::String(text) if is_list(part) => json::parse(text.as_bytes()).ok(),
        _ => None,
    };
    let hash = match unfolded.as_ref().unwrap_or(value) {
        Json::List(items) if part == Part::Label => of_list(items.iter().map(of_label)),
        label if part == Part::Label => of_label(label),
        Json::List(items) => of_list(items.iter().map(|item| match item {
            Json::Map(message) => of_message(message),
            other => of_value(other),
        })),
        other => of_value(other),
    };
    entry(part.name(), hash)
}

/// True if a part may be the JSON text of a list.
fn is_list(part: Part) -> bool {
    matches!(part, Part::Messages | Part::Tools | Part::History | Part::LossMask)
}

/// The hash of the name or the number of a class: cells are texts, of names and of numbers.
fn of_label(label: &Json) -> u64 {
    match label {
        Json::Int(number) => of_string(&number.to_string()),
        Json::Float(number) => of_string(&number.to_string()),
        Json::Bool(truth) => of_string(if *truth { "1" } else { "0" }),
        other => of_value(other),
    }
}

/// The hash of the arguments of a record to the chat template.
pub(super) fn of_kwargs(kwargs: &Json) -> u64 {
    match kwargs {
        Json::Null => 0,
        kwargs => entry(fields::TEMPLATE_KWARGS, of_value(kwargs)),
    }
}

fn of_message(message: &Map) -> u64 {
    let renames = message.contains_key("from") && !message.contains_key("role");
    let entries = message.iter().map(|(key, value)| match (&**key, value) {
        (_, Json::Null) => 0,
        ("from", Json::String(from)) if renames => {
            let role = ROLES.iter().find(|(name, _)| *name == &**from);
            entry("role", of_string(role.map_or(&**from, |(_, role)| role)))
        }
        ("value", value) if renames => entry("content", of_value(value)),
        (key, value) => entry(key, of_value(value)),
    });
    of_entries(entries.fold(0, u64::wrapping_add))
}

/// The hash of any value.
pub(super) fn of_value(value: &Json) -> u64 {
    match value {
        Json::Null => NULL,
        Json::Bool(truth) => of_number(f64::from(u8::from(*truth))),
        #[expect(clippy::cast_precision_loss, reason = "numbers that are so close may be alike")]
        Json::Int(number) => of_number(*number as f64),
        Json::BigInt(number) => of_number(number.to_string().parse().unwrap_or(f64::INFINITY)),
        Json::Float(number) => of_number(*number),
        Json::String(text) => of_string(text),
        Json::List(items) => of_list(items.iter().map(of_value)),
        Json::Map(map) => {
            let entries = map.iter().filter(|(_, value)| **value != Json::Null);
            of_entries(
                entries.map(|(key, value)| entry(key, of_value(value))).fold(0, u64::wrapping_add),
            )
        }
    }
}

/// The hash of a number: tables may hold it in 32 bits.
fn of_number(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the nearest of 32 bits")]
    let short = number as f32 + 0.0;
    next(NUMBER, u64::from(short.to_bits()))
}

/// The hash of a text.
pub(super) fn of_string(text: &str) -> u64 {
    XxHash64::oneshot(0, text.as_bytes())
}

/// The hash of the value under a key. Those of an object are added up, so their order does not count.
pub(super) fn entry(key: &str, value: u64) -> u64 {
    next(of_string(key), value)
}

fn of_entries(sum: u64) -> u64 {
    next(MAP, sum)
}

fn of_list(items: impl Iterator<Item = u64>) -> u64 {
    items.fold(LIST, next)
}

fn next(before: u64, item: u64) -> u64 {
    mix(before.wrapping_mul(STEP).wrapping_add(item))
}

#[cfg(test)]
mod tests {
    use super::super::{MessageForms, ReplayReader, Shape, ShapeOptions, content_of};
    use crate::config::Fields;
    use crate::source::RawContent;

    /// The hash of a line of conversations, as the fast reader has it if it reads the line, and as the other does.
    fn contents(line: &str) -> (Option<u64>, u64) {
        let fields = Fields::default();
        let expected = ShapeOptions { shape: None, fields: &fields, shapes: &[] };
        let shape = Shape::conversations();
        let mut reader = ReplayReader::default();
        let fast = reader.read(line.as_bytes(), &shape).then(|| reader.content());
        let other =
            content_of(RawContent::Json(line.as_bytes()), &shape, expected, MessageForms::ALL);
        (fast, other.expect("a conversation"))
    }

    #[test]
    fn both_readers_hash_a_conversation_alike() {
        let lines = [
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#,
            r#"{"id": 7, "messages": [{"content": "a", "name": null, "role": "user"}, {"content": "b", "role": "assistant"}]}"#,
            r#"{"messages": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "tools": null}"#,
        ];
        let hashes: Vec<_> = lines.iter().map(|line| contents(line)).collect();
        for (fast, other) in &hashes {
            assert_eq!(*fast, Some(*other));
            assert_eq!(*other, hashes[0].1);
        }
        let others = [
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0.5}]}"#,
            r#"{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": ""}]}"#,
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": "b"}]}"#,
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5, "y": null}}}]}]}"#,
            r#"{"tools": [{"name": "f"}], "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#,
            r#"{"tools": "[{\"name\": \"f\", \"x\": null}]", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]}"#,
            r#"{"chat_template_kwargs": {"think": true}, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#,
        ];
        let mut seen = vec![hashes[0].1];
        for line in others {
            let (fast, other) = contents(line);
            assert_eq!(fast, Some(other), "{line}");
            assert!(!seen.contains(&other), "{line}");
            seen.push(other);
        }
    }
}
