//! Conversations: a list of messages as `{role, content}` or `{from, value}`, with tools if any.

use std::sync::Arc;

use super::function_calls::tool_calls;
use super::{flags, loss_mask};
use crate::config::Part;
use crate::config::inputs::fields::TEMPLATE_KWARGS;
use crate::record::kinds::Conversation;
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::parsing::json;
use crate::record::shape::{Shape, found};
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The words in the types of parts that are no text, such as `image_url` and `input_audio`.
const MEDIA: [&str; 4] = ["image", "audio", "video", "file"];

/// The types of parts that are pictures, the usual one first.
pub(crate) const PICTURE_TYPES: [&str; 3] = ["image", "image_url", "input_image"];

/// The roles of `ShareGPT`, and the roles in templates.
pub(crate) const ROLES: [(&str, &str); 8] = [
    ("human", "user"),
    ("user", "user"),
    ("gpt", "assistant"),
    ("assistant", "assistant"),
    ("system", "system"),
    ("tool", "tool"),
    ("observation", "tool"),
    (FUNCTION_CALL, "assistant"),
];

/// The role in `ShareGPT` of an assistant's turn that is the JSON text of a call.
pub(crate) const FUNCTION_CALL: &str = "function_call";

/// The forms of messages that a template takes. Other forms are written as text for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageForms {
    /// It knows `tool_calls`: calls written as JSON text are parsed into them.
    pub calls: bool,
    /// Calls are to be told from other words: one that stays text is refused.
    pub masks_calls: bool,
    /// Parts may be pictures.
    pub pictures: bool,
}

impl MessageForms {
    /// Messages are left as they are.
    pub const ALL: Self = Self { calls: true, masks_calls: false, pictures: false };
}

/// The conversation in `field`.
pub(crate) fn read(
    record: &Map,
    field: &str,
    shape: &Shape,
    takes: MessageForms,
) -> Result<Conversation, Fault> {
    let (mut conversation, before) = read_unmasked(record, field, shape, takes)?;
    loss_mask::weigh(&mut conversation, before, record, shape)?;
    Ok(conversation)
}

/// The conversation in `field` without the record's own mask, and the number of messages before those of `field`.
pub(crate) fn read_unmasked(
    record: &Map,
    field: &str,
    shape: &Shape,
    takes: MessageForms,
) -> Result<(Conversation, usize), Fault> {
    let mut messages = read_list(record, field, takes)?;
    let own = messages.len();
    let mut weights = flags::read(&messages, field)?;
    if let Some(system) = read_system(record, shape)? {
        lead_with(&mut messages, system, shape.field_of(Part::System, record))?;
        if let Some(weights) = weights.as_mut().filter(|_| messages.len() > own) {
            weights.insert(0, None);
        }
    }
    let before = messages.len() - own;
    let conversation = Conversation {
        weights,
        messages,
        prompt: None,
        pictures: Vec::new(),
        tools: read_tools(record, shape.field(Part::Tools))?,
        template_kwargs: read_template_kwargs(record)?,
    };
    Ok((conversation, before))
}

/// The messages in `field`.
pub(crate) fn read_list(
    record: &Map,
    field: &str,
    takes: MessageForms,
) -> Result<Vec<Arc<Map>>, Fault> {
    let list = match json::unfold(record, field)? {
        Some(Json::List(list)) => list,
        other => return Err(wrong_type(field, "a list of messages", other.as_ref())),
    };
    if list.is_empty() {
        return Err(Fault::new(Reason::Empty, format!("`{field}` holds no message")));
    }
    let messages =
        list.iter().enumerate().map(|(at, message)| read_message(message, field, at, takes));
    messages.collect()
}

/// The system text before a conversation or a request.
pub(crate) fn read_system(record: &Map, shape: &Shape) -> Result<Option<String>, Fault> {
    optional(record, shape.field_of(Part::System, record))
}

/// Puts a system message before the others, unless the same one is there already.
fn lead_with(messages: &mut Vec<Arc<Map>>, system: String, field: &str) -> Result<(), Fault> {
    let text = Json::String(Arc::from(system));
    let role = |message: &Map| message.get("role").cloned();
    let first = messages.first().filter(|first| role(first) == Some(Json::String("system".into())));
    match first.map(|first| first.get("content") == Some(&text)) {
        Some(true) => {}
        Some(false) => {
            let message = format!("`{field}` differs from the system message of the conversation");
            return Err(Fault::new(Reason::WrongType, message));
        }
        None => messages.insert(0, Arc::new(message("system", text))),
    }
    Ok(())
}

/// A message of this role and content.
pub(crate) fn message(role: &str, content: Json) -> Map {
    [(Arc::from("role"), Json::String(Arc::from(role))), (Arc::from("content"), content)]
        .into_iter()
        .collect()
}

/// A message in the form for templates. `from` and `value` are renamed; other keys stay.
pub(crate) fn read_message(
    message: &Json,
    field: &str,
    at: usize,
    takes: MessageForms,
) -> Result<Arc<Map>, Fault> {
    let place = || format!("{field}[{at}]");
    let Json::Map(message) = message else {
        return Err(wrong_type(&place(), "an object with `role` and `content`", Some(message)));
    };
    let message = match message.get("from") {
        Some(from) if !message.contains_key("role") => {
            Arc::new(rename(message, from, &place(), takes)?)
        }
        _ => Arc::clone(message),
    };
    match message.get("role") {
        Some(Json::String(_)) => {}
        None => return Err(without_role(&message, &place())),
        other => return Err(wrong_type(&format!("{}.role", place()), "a string", other)),
    }
    if let Some(content) = message.get("content") {
        check_content(content, &place(), takes.pictures)?;
    }
    Ok(message)
}

/// The fault of a message without a role, with the keys that it has.
fn without_role(message: &Map, place: &str) -> Fault {
    let found = found(message);
    let reason = format!(
        "`{place}.role` must be a string, found nothing: the message has the keys {found}, where `role` and `content` \
         (or `from` and `value`) are read; a `map` can rename them"
    );
    Fault::new(Reason::WrongType, reason)
}

/// `{from, value}` to `{role, content}`, the keys in the order in which they stood.
fn rename(message: &Map, from: &Json, place: &str, takes: MessageForms) -> Result<Map, Fault> {
    let Json::String(from) = from else {
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
    if **from == *FUNCTION_CALL
        && takes.calls
        && let Some((words, calls)) = tool_calls(&message["value"])
    {
        let mut renamed = self::message("assistant", Json::String(words.into()));
        renamed.insert("tool_calls".into(), calls);
        let flags = message.iter().filter(|(key, _)| flags::NAMES.contains(&&***key));
        renamed.extend(flags.map(|(key, value)| (Arc::clone(key), value.clone())));
        return Ok(renamed);
    }
    if **from == *FUNCTION_CALL && takes.masks_calls {
        let reason = format!(
            "`{place}` is a call that the chat template writes as any text, so that its tokens cannot be left out of the loss"
        );
        return Err(Fault::new(Reason::Unmaskable, reason));
    }
    let renamed = message.iter().map(|(key, value)| match key.as_ref() {
        "from" => (Arc::from("role"), Json::String(Arc::from(*role))),
        "value" => (Arc::from("content"), value.clone()),
        _ => (Arc::clone(key), value.clone()),
    });
    Ok(renamed.collect())
}

/// Content must be text, a list of parts, an object or null. The template decides whether it takes it, and the
/// types of its parts; only images, sounds, films and files are refused, because a model does not see them as text.
pub(crate) fn check_content(
    content: &Json,
    place: &str,
    takes_pictures: bool,
) -> Result<(), Fault> {
    match content {
        Json::Map(part) if matches!(part.get("type"), Some(Json::String(kind)) if is_media(kind)) => {
            let reason = format!("`{place}.content` is one part; write it as a list of parts");
            Err(Fault::new(Reason::NotText, reason))
        }
        Json::Null | Json::String(_) | Json::Map(_) => Ok(()),
        Json::List(parts) => parts.iter().enumerate().try_for_each(|(at, part)| match part {
            Json::String(_) => Ok(()),
            Json::Map(part) => match part.get("type") {
                None => Ok(()),
                Some(Json::String(kind)) if !is_media(kind) => Ok(()),
                Some(Json::String(kind)) if takes_pictures && is_picture(kind) => Ok(()),
                Some(Json::String(kind)) => Err(Fault::new(
                    Reason::NotText,
                    if is_picture(kind) && !takes_pictures {
                        format!("`{place}.content[{at}]` is of type `{kind}`; pictures are packed with `reading.images`")
                    } else {
                        format!("`{place}.content[{at}]` is of type `{kind}`; fastpack packs text and pictures")
                    },
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

/// True for a type of parts that are pictures.
pub(crate) fn is_picture(kind: &str) -> bool {
    PICTURE_TYPES.contains(&kind)
}

/// Tells types of media from types of text.
fn is_media(kind: &str) -> bool {
    kind.split(['_', '-']).any(|word| MEDIA.contains(&word))
}

/// Tools as a list of schemas, or as JSON text of one; `None` where null or absent.
fn read_tools(record: &Map, field: &str) -> Result<Option<Json>, Fault> {
    let Some(tools) = json::unfold(record, field)? else { return Ok(None) };
    match &tools {
        Json::Null => Ok(None),
        Json::List(list) => {
            for (at, tool) in list.iter().enumerate() {
                if !matches!(tool, Json::Map(_)) {
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
        None | Some(Json::Null) => Ok(Map::default()),
        Some(Json::Map(kwargs)) => Ok(kwargs.as_ref().clone()),
        other => Err(wrong_type(TEMPLATE_KWARGS, "an object", other)),
    }
}

/// An optional text; `None` if it is absent, null or empty.
pub(crate) fn optional(record: &Map, field: &str) -> Result<Option<String>, Fault> {
    match record.get(field) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.to_string())),
        other => Err(wrong_type(field, "a string", other)),
    }
}
