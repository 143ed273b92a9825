//! Conversations: a list of messages as `{role, content}` or `{from, value}`, with tools if any.

use std::sync::Arc;

use super::value::{Map, Value};
use super::{Conversation, Fault, json, wrong_type};
use crate::config::Fields;
use crate::ledger::Reason;

/// Where a conversation stands, if nothing else is said: the first of these that a record has.
pub(super) const FIELDS: [&str; 3] = ["messages", "conversation", "conversations"];

/// Where the tools stand, if nothing else is said.
const TOOLS: &str = "tools";

/// Where a record's own arguments to the template stand; the name is TRL's.
const TEMPLATE_KWARGS: &str = "chat_template_kwargs";

/// What `ShareGPT` calls the sides of a conversation, and what templates call them.
const ROLES: [(&str, &str); 4] =
    [("human", "user"), ("gpt", "assistant"), ("system", "system"), ("tool", "tool")];

pub(super) fn read(record: &Map, field: &str, fields: &Fields) -> Result<Conversation, Fault> {
    let list = match json::unfold(record, field)? {
        Some(Value::List(list)) => list,
        other => return Err(wrong_type(field, "a list of messages", other.as_ref())),
    };
    if list.is_empty() {
        return Err(Fault::new(Reason::Empty, format!("`{field}` holds no message")));
    }
    let messages = list.iter().enumerate().map(|(at, message)| read_message(message, field, at));
    Ok(Conversation {
        messages: messages.collect::<Result<_, _>>()?,
        tools: read_tools(record, fields.tools.as_deref().unwrap_or(TOOLS))?,
        template_kwargs: read_template_kwargs(record)?,
    })
}

/// A message as templates want it; one with `from` and `value` is renamed, its other keys stay.
fn read_message(message: &Value, field: &str, at: usize) -> Result<Map, Fault> {
    let place = || format!("{field}[{at}]");
    let Value::Map(message) = message else {
        return Err(wrong_type(&place(), "an object with `role` and `content`", Some(message)));
    };
    let message = match message.get("from") {
        Some(from) if !message.contains_key("role") => rename(message, from, &place())?,
        _ => message.as_ref().clone(),
    };
    match message.get("role") {
        Some(Value::String(_)) => {}
        other => return Err(wrong_type(&format!("{}.role", place()), "a string", other)),
    }
    if let Some(content) = message.get("content") {
        check_content(content, &place())?;
    }
    Ok(message)
}

/// `{from, value}` to `{role, content}`, the keys in the order in which they stood.
fn rename(message: &Map, from: &Value, place: &str) -> Result<Map, Fault> {
    let Value::String(from) = from else {
        return Err(wrong_type(&format!("{place}.from"), "a string", Some(from)));
    };
    let Some((_, role)) = ROLES.iter().find(|(name, _)| *name == from.as_ref()) else {
        let known: Vec<&str> = ROLES.iter().map(|(name, _)| *name).collect();
        return Err(Fault::new(
            Reason::UnknownRole,
            format!("`{place}.from` is `{from}`, expected one of `{}`", known.join("`, `")),
        ));
    };
    if !message.contains_key("value") {
        return Err(wrong_type(&format!("{place}.value"), "a string", None));
    }
    let renamed = message.iter().map(|(key, value)| match key.as_ref() {
        "from" => (Arc::from("role"), Value::String(Arc::from(*role))),
        "value" => (Arc::from("content"), value.clone()),
        _ => (Arc::clone(key), value.clone()),
    });
    Ok(renamed.collect())
}

/// Content is text, a list of parts, an object or null; whether a template takes it is the template's word.
fn check_content(content: &Value, place: &str) -> Result<(), Fault> {
    match content {
        Value::Null | Value::String(_) | Value::Map(_) => Ok(()),
        Value::List(parts) => parts.iter().enumerate().try_for_each(|(at, part)| match part {
            Value::String(_) => Ok(()),
            Value::Map(part) => match part.get("type") {
                None => Ok(()),
                Some(Value::String(kind)) if kind.as_ref() == "text" => Ok(()),
                Some(Value::String(kind)) => Err(Fault::new(
                    Reason::NotText,
                    format!(
                        "`{place}.content[{at}]` is of type `{kind}`; fastpack packs text only"
                    ),
                )),
                Some(other) => {
                    Err(wrong_type(&format!("{place}.content[{at}].type"), "a string", Some(other)))
                }
            },
            other => Err(wrong_type(
                &format!("{place}.content[{at}]"),
                "a string or an object",
                Some(other),
            )),
        }),
        other => Err(wrong_type(
            &format!("{place}.content"),
            "a string, a list of parts, an object or null",
            Some(other),
        )),
    }
}

/// Tools as a list of schemas, or as JSON text of one; none where null or absent.
fn read_tools(record: &Map, field: &str) -> Result<Option<Value>, Fault> {
    let Some(tools) = json::unfold(record, field)? else { return Ok(None) };
    match &tools {
        Value::Null => Ok(None),
        Value::List(list) => {
            for (at, tool) in list.iter().enumerate() {
                if !matches!(tool, Value::Map(_)) {
                    return Err(wrong_type(&format!("{field}[{at}]"), "an object", Some(tool)));
                }
            }
            Ok(Some(tools))
        }
        other => Err(wrong_type(field, "a list of tool schemas", Some(other))),
    }
}

/// The record's own arguments to the template.
fn read_template_kwargs(record: &Map) -> Result<Map, Fault> {
    match record.get(TEMPLATE_KWARGS) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Map(kwargs)) => Ok(kwargs.as_ref().clone()),
        other => Err(wrong_type(TEMPLATE_KWARGS, "an object", other)),
    }
}
