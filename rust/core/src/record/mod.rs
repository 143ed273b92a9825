//! Raw bytes to a [`Record`]: what a line of data means, whatever its shape.
//!
//! Each shape has a file of its own: [`messages`] for conversations, [`pair`] for requests with answers, [`text`]
//! for plain text, [`tokens`] for ids. [`Shape`] is found once a file, in the order of `Shape::find`, or named.

mod cbor;
mod columns;
mod cursor;
mod flags;
mod json;
mod messages;
mod pair;
mod place;
mod row;
mod shape;
mod skim;
mod table;
mod text;
mod tokens;
mod write;

use std::sync::Arc;

use fastpack_template::json::{Map, Value};

use crate::config::{Fields, Part, ShapeName, usual};
use crate::error::{Error, Origin};
use crate::ledger::{Place, Reason};
use crate::message::in_one_line;
use crate::source::Raw;

pub use flags::is_assistant;
pub use json::MAX_DEPTH;
pub use messages::Takes;
pub use pair::Pair;
pub use shape::{Expectation, Shape, TokenColumns};
pub use skim::Skim;
pub use table::Table;
pub use text::skim_text;
pub use tokens::{Run, Tokens};
pub(crate) use write::json as write_json;
pub use write::{float as write_float, string as write_string};

/// What one line of data means.
#[derive(Clone, Debug)]
pub enum Record {
    /// Messages for a chat template.
    Conversation(Conversation),
    /// A request and its answer, to be put into words.
    Pair(Pair),
    /// Text as it stands.
    Text(String),
    /// Ids.
    Tokens(Tokens),
}

/// Messages and what goes with them, as a chat template sees them.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The messages as they were read. Never empty.
    pub messages: Vec<Arc<Map>>,
    /// The tool schemas (a list of maps), or nothing where the record has none.
    pub tools: Option<Value>,
    /// The record's own `chat_template_kwargs`.
    pub template_kwargs: Map,
    /// The weight that each message gives itself, if any does.
    pub weights: Option<Vec<Option<f32>>>,
    /// How many of the messages are a prompt, which the others complete; nothing where the record does not say.
    pub prompt: Option<usize>,
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
    /// A fault, with what is wrong and what would be right; what the message quotes of the record is bounded.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: in_one_line(message.into()) }
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

/// Reads a conversation that was not read from a file: `messages`, and `tools` and `chat_template_kwargs` if any.
pub fn conversation(record: &Map) -> Result<Conversation, Fault> {
    let shape = Shape::conversations();
    messages::read(record, usual::MESSAGES[0], &shape, Takes::ALL)
}

/// Reads a conversation from JSON: an object as [`conversation`] takes it.
pub fn parse_conversation(json: &[u8]) -> Result<Conversation, Fault> {
    conversation(&*object(Raw::Json(json), |_| true)?)
}

/// The messages that a pair stands for, behind those of the examples.
pub fn as_messages(pair: &Pair, examples: &[(String, String)]) -> Conversation {
    let message =
        |role: &str, text: &str| Arc::new(messages::message(role, Value::String(Arc::from(text))));
    let request = match &pair.input {
        Some(input) => format!("{}\n{input}", pair.request),
        None => pair.request.clone(),
    };
    let mut list: Vec<Arc<Map>> = Vec::with_capacity(2 * examples.len() + 3);
    list.extend(pair.system.as_ref().map(|system| message("system", system)));
    for (request, answer) in examples {
        list.extend([message("user", request), message("assistant", answer)]);
    }
    list.push(message("user", &request));
    let prompt = Some(list.len());
    list.push(message("assistant", &pair.answer));
    Conversation {
        messages: list,
        tools: None,
        template_kwargs: Map::default(),
        weights: None,
        prompt,
    }
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
            Ok(Arc::new([(Arc::from(usual::TEXT[0]), content)].into_iter().collect()))
        }
        Raw::Cbor(item) => cbor::parse(item, wanted, false).map(Arc::new),
        Raw::Broken { reason, message } => Err(Fault::new(reason, message)),
    }
}

/// The shape of a file, and what its first record shows besides.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The shape.
    pub shape: Shape,
    /// The fields of the shape that the record has.
    pub fields: Vec<String>,
}

/// The shape of the first of `records` that has one.
pub fn find_shape<'a>(
    records: impl IntoIterator<Item = Raw<'a>>,
    expected: Expectation<'_>,
) -> Option<Shown> {
    records.into_iter().find_map(|raw| {
        let expected = match raw {
            Raw::Text(_) => Expectation { shape: None, fields: &Fields::default(), ..expected },
            _ => expected,
        };
        let record = match raw {
            // A column that no shape reads may hold anything.
            Raw::Row { batch, row } => row::readable(batch, row, |_| true),
            Raw::Cbor(item) => cbor::parse(item, |_| true, true).ok()?,
            raw => (*object(raw, |_| true).ok()?).clone(),
        };
        let shape = Shape::find(&record, expected)?;
        Some(Shown { fields: shape.fields_of(&record), shape })
    })
}

/// Reads one record of a file of this shape; `expected` is what the shape was found by.
pub fn read(
    raw: Raw<'_>,
    shape: Option<&Shape>,
    expected: Expectation<'_>,
    takes: Takes,
) -> Result<Record, Fault> {
    if let (Raw::Row { batch, row }, Some(shape)) = (raw, shape)
        && shape.name == ShapeName::Tokens
        && let Some(parts) = tokens::row(batch, row, shape)
    {
        return parts.check().map(Record::Tokens);
    }
    let record = &*object(raw, |field| shape.is_none_or(|shape| shape.reads(field)))?;
    let Some(shape) = shape else { return Err(shape::unknown(record, expected)) };
    let beside = || match raw {
        // What no shape reads may hold anything there.
        Raw::Row { batch, row } => Some(row::readable(batch, row, |field| shape.is_telling(field))),
        Raw::Cbor(item) => cbor::parse(item, |field| shape.is_telling(field), true).ok(),
        _ => None,
    };
    if let Some(fault) = shape.fault(record, beside, expected) {
        return Err(fault);
    }
    match shape.name {
        ShapeName::Conversations => {
            let field = shape.field(Part::Messages);
            messages::read(record, field, shape, takes).map(Record::Conversation)
        }
        ShapeName::PromptCompletion | ShapeName::Instruction | ShapeName::QuestionAnswer => {
            pair::read(record, shape, takes)
        }
        ShapeName::Text => text::read(record, shape.field(Part::Text)).map(Record::Text),
        ShapeName::Tokens => tokens::read(record, shape)?.check().map(Record::Tokens),
    }
}

/// The fault of a field that holds something else than it must.
fn wrong_type(field: &str, expected: &str, found: Option<&Value>) -> Fault {
    let found = found.map_or("nothing", Value::type_name);
    Fault::new(Reason::WrongType, format!("`{field}` must be {expected}, found {found}"))
}
