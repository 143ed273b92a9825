//! Raw bytes to a [`Record`]: what a line of data means, whatever its shape.
//!
//! Each shape has a file of its own: [`messages`] for conversations, [`text`] for plain text. A shape is found
//! by looking for its field, in the order of [`Shape::find`], or named by [`Fields`].

mod json;
mod messages;
mod row;
mod text;
pub mod value;

use std::sync::Arc;

use crate::config::Fields;
use crate::error::{Error, Origin};
use crate::ledger::{Place, Reason};
use crate::source::Raw;
use value::{Map, Value};

pub use json::MAX_DEPTH;

/// What one line of data means.
#[derive(Clone, Debug)]
pub enum Record {
    /// Messages for a chat template.
    Conversation(Conversation),
    /// Text as it stands.
    Text(String),
}

/// Messages and what goes with them, as a chat template sees them.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The messages as they were read. Never empty.
    pub messages: Vec<Map>,
    /// The tool schemas (a list of maps), or nothing where the record has none.
    pub tools: Option<Value>,
    /// The record's own `chat_template_kwargs`.
    pub template_kwargs: Map,
}

/// Why a line is no record: a [`Place`] but for the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name it is counted under.
    pub reason: Reason,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault, with what is wrong and what would be right.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The fault as the error that ends a run.
    pub fn into_error(self, origin: Origin) -> Error {
        Error::Record { origin, reason: self.reason, message: self.message }
    }

    /// The fault as an entry of the ledger.
    pub fn into_place(self, origin: Origin) -> Place {
        Place { origin, reason: self.reason, message: self.message }
    }
}

/// Where in a record its content stands.
enum Shape<'a> {
    Messages(&'a str),
    Text(&'a str),
}

impl<'a> Shape<'a> {
    /// The shape that `fields` names, else the first whose field the record has and that is not null.
    fn find(record: &Map, fields: &'a Fields) -> Option<Self> {
        if let Some(name) = &fields.messages {
            return Some(Self::Messages(name));
        }
        if let Some(name) = &fields.text {
            return Some(Self::Text(name));
        }
        let has = |name: &&str| record.get(*name).is_some_and(|value| *value != Value::Null);
        let conversation = messages::FIELDS.into_iter().find(has).map(Shape::Messages);
        conversation.or_else(|| [text::FIELD].into_iter().find(has).map(Shape::Text))
    }
}

/// Reads a conversation that was not read from a file: `messages`, and `tools` and `chat_template_kwargs` if any.
pub fn conversation(record: &Map) -> Result<Conversation, Fault> {
    messages::read(record, messages::FIELDS[0], &Fields::default())
}

/// What stands in a file as an object, the columns of a table only as far as they are `wanted`.
fn object(raw: Raw<'_>, wanted: impl Fn(&str) -> bool) -> Result<Arc<Map>, Fault> {
    match raw {
        Raw::Json(bytes) => match json::parse(bytes)? {
            Value::Map(record) => Ok(record),
            other => {
                let message = format!("expected an object, found {}", other.type_name());
                Err(Fault::new(Reason::NotAnObject, message))
            }
        },
        Raw::Cells { names, cells } => row::cells(names, cells, wanted).map(Arc::new),
        Raw::Row { batch, row } => row::row(batch, row, wanted).map(Arc::new),
        Raw::Text(text) => {
            let text = simdutf8::compat::from_utf8(text).map_err(|error| {
                let at = error.valid_up_to() + 1;
                Fault::new(Reason::InvalidUtf8, format!("byte {at} of the file is not UTF-8"))
            })?;
            let content = Value::String(Arc::from(text));
            Ok(Arc::new([(Arc::from(text::FIELD), content)].into_iter().collect()))
        }
        Raw::Broken { reason, message } => Err(Fault::new(reason, message)),
    }
}

/// Reads one record.
pub fn read(raw: Raw<'_>, fields: &Fields) -> Result<Record, Fault> {
    let record = &*object(raw, |_| true)?;
    match Shape::find(record, fields) {
        Some(Shape::Messages(name)) => {
            messages::read(record, name, fields).map(Record::Conversation)
        }
        Some(Shape::Text(name)) => text::read(record, name).map(Record::Text),
        None => {
            let found: Vec<String> = record.keys().map(|key| format!("`{key}`")).collect();
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            let message = format!(
                "expected one of the fields `{}` or `{}`, found {found}; name another with `fields`",
                messages::FIELDS.join("`, `"),
                text::FIELD,
            );
            Err(Fault::new(Reason::NoContent, message))
        }
    }
}

/// The fault of a field that holds something else than it must.
fn wrong_type(field: &str, expected: &str, found: Option<&Value>) -> Fault {
    let found = found.map_or("nothing", Value::type_name);
    Fault::new(Reason::WrongType, format!("`{field}` must be {expected}, found {found}"))
}
