//! Reads records: finds the shape of a file, and reads its records by that shape.

use std::cell::Cell;
use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use super::content_hash;
use super::kinds::{Conversation, Record};
use super::parsing::fault::Fault;
use super::parsing::{cbor, json};
use super::shape::{self, Shape, ShapeOptions};
use super::shapes::messages;
use super::shapes::messages::MessageForms;
use super::shapes::{labelled, loss_mask, pair, pictures, preference, record_tokens, text};
use super::tables::row;
use crate::config::inputs::fields;
use crate::config::{Fields, Part, ShapeName};
use crate::report::ledger::Reason;
use crate::source::RawContent;

/// Reads a conversation from an object with `messages`, and optional `tools` and `chat_template_kwargs`, for a template
/// that takes these forms of messages.
pub fn conversation(record: &Map, takes: MessageForms) -> Result<Conversation, Fault> {
    messages::read(record, fields::MESSAGES[0], &Shape::conversations(), takes)
}

/// Reads a conversation from JSON, with the fields of [`conversation`].
pub fn parse_conversation(json: &[u8]) -> Result<Conversation, Fault> {
    conversation(&*object(RawContent::Json(json), |_| true)?, MessageForms::ALL)
}

/// A raw record as an object. Of a table, only the columns that are `wanted`. In fields of JSON that are not wanted, halves
/// of surrogate pairs are replaced.
pub(crate) fn object(
    raw: RawContent<'_>,
    wanted: impl Fn(&str) -> bool,
) -> Result<Arc<Map>, Fault> {
    match raw {
        RawContent::Json(bytes) => match json::parse(bytes) {
            Ok(Json::Map(record)) => Ok(record),
            Err(fault) if fault.reason == Reason::LoneSurrogate => match json::mended(bytes) {
                Some((record, broken)) if !broken.iter().any(|field| wanted(field)) => Ok(record),
                _ => Err(fault),
            },
            Err(fault) => Err(fault),
            Ok(other) => {
                let hint = match other {
                    Json::String(_) => "; a text is an object too: {\"text\": \"...\"}",
                    _ => "",
                };
                let message = format!("expected an object, found {}{hint}", other.type_name());
                Err(Fault::new(Reason::NotAnObject, message))
            }
        },
        RawContent::Cells { names, cells } => row::cells(names, cells, wanted).map(Arc::new),
        RawContent::Row { batch, row } => row::row(batch, row, wanted).map(Arc::new),
        RawContent::Text(text) => {
            let text = simdutf8::compat::from_utf8(text).map_err(|error| {
                let at = error.valid_up_to() + 1;
                Fault::new(Reason::InvalidUtf8, format!("byte {at} of the file is not UTF-8"))
            })?;
            let content = Json::String(Arc::from(text));
            Ok(Arc::new([(Arc::from(fields::TEXT[0]), content)].into_iter().collect()))
        }
        RawContent::Cbor(item) => cbor::parse(item, wanted, false).map(Arc::new),
        RawContent::Broken { reason, message } => Err(Fault::new(reason, message)),
    }
}

/// The shape of a file, and the fields of its first record.
#[derive(Clone, Debug)]
pub struct FoundShape {
    /// The shape.
    pub shape: Shape,
    /// The fields of the shape that the record has.
    pub fields: Vec<String>,
}

/// Refuses a record that shows pictures in its messages and has none, if they seem to be in a column that is not read, or to be
/// missing.
fn refuse_other_pictures(
    raw: RawContent<'_>,
    record: &Map,
    fields: &Fields,
    reads: impl Fn(&str) -> bool,
) -> Result<(), Fault> {
    let (found, missing) = match raw {
        RawContent::Row { batch, row } => (
            pictures::other_column_of_row(batch, row, fields),
            fields.picture_columns().find(|name| batch.column_by_name(name).is_some()),
        ),
        _ => (
            pictures::other_column(&*object(raw, |field| !reads(field))?),
            fields.picture_columns().find(|name| record.contains_key(*name)),
        ),
    };
    match (found, missing) {
        (Some(column), _) => Err(pictures::unnamed(&column)),
        (None, Some(column)) => Err(pictures::null(column)),
        (None, None) => Ok(()),
    }
}

/// The shape of the first record that has one.
pub fn find_shape<'a>(
    records: impl IntoIterator<Item = RawContent<'a>>,
    expected: ShapeOptions<'_>,
) -> Option<FoundShape> {
    records.into_iter().find_map(|raw| {
        let expected = match raw {
            RawContent::Text(_) => {
                ShapeOptions { shape: None, fields: &Fields::default(), ..expected }
            }
            _ => expected,
        };
        let record = match raw {
            // A column that no shape reads may hold any type.
            RawContent::Row { batch, row } => row::readable(batch, row, |_| true),
            RawContent::Cbor(item) => cbor::parse(item, |_| true, true).ok()?,
            // Faults of the record do not matter here.
            RawContent::Json(_) => (*object(raw, |_| false).ok()?).clone(),
            raw => (*object(raw, |_| true).ok()?).clone(),
        };
        let shape = Shape::find(&record, expected)?;
        Some(FoundShape { fields: shape.fields_of(&record), shape })
    })
}

/// Reads one record of a file with this shape. `expected` holds the options that the shape was found by.
pub fn read(
    raw: RawContent<'_>,
    shape: Option<&Shape>,
    expected: ShapeOptions<'_>,
    takes: MessageForms,
) -> Result<Record, Fault> {
    read_with_facts(raw, shape, expected, takes, &ReadFacts::default())
}

/// The facts of a record beside its content.
#[derive(Debug, Default)]
pub struct ReadFacts {
    /// True if [`left_out`](super::left_out) may find a field.
    pub unread: Cell<bool>,
    /// True if the hash of the fields that the shape reads is wanted.
    pub hashes: bool,
    /// The hash.
    pub content: Cell<Option<u64>>,
}

/// The hash of the fields that the shape of a record reads; `None` for a record that cannot be read.
pub(crate) fn content_of(
    raw: RawContent<'_>,
    shape: &Shape,
    expected: ShapeOptions<'_>,
    takes: MessageForms,
) -> Option<u64> {
    let facts = ReadFacts { hashes: true, ..ReadFacts::default() };
    let _ = read_with_facts(raw, Some(shape), expected, takes, &facts);
    facts.content.get()
}

/// The `wanted` fields of a record that its shape does not read, which may hold any type; `None` if it was read with all its fields.
fn unread_fields(raw: RawContent<'_>, wanted: impl Fn(&str) -> bool) -> Option<Map> {
    match raw {
        RawContent::Row { batch, row } => Some(row::readable(batch, row, wanted)),
        RawContent::Cbor(item) => cbor::parse(item, wanted, true).ok(),
        _ => None,
    }
}

/// Reads one record as [`read`] does, and tells facts of it.
pub fn read_with_facts(
    raw: RawContent<'_>,
    shape: Option<&Shape>,
    expected: ShapeOptions<'_>,
    takes: MessageForms,
    facts: &ReadFacts,
) -> Result<Record, Fault> {
    facts.unread.set(true);
    let checked = |lists: record_tokens::TokenLists<'_>| {
        let tokens = lists.check()?;
        facts.content.set(facts.hashes.then(|| content_hash::of_tokens(&tokens)));
        Ok(Record::Tokens(tokens))
    };
    if let (RawContent::Row { batch, row }, Some(shape)) = (raw, shape)
        && shape.name == ShapeName::Tokens
        && let Some(parts) = record_tokens::row(batch, row, shape)
    {
        return checked(parts);
    }
    let is_row = matches!(raw, RawContent::Row { .. });
    let reads = |field: &str| {
        let is_picture = takes.pictures && !is_row && expected.fields.names_pictures(field);
        is_picture || shape.is_none_or(|shape| shape.reads(field))
    };
    let record = &*object(raw, reads)?;
    let Some(shape) = shape else { return Err(shape::unknown(record, expected)) };
    if let RawContent::Json(_) = raw {
        let mut fields = record.keys();
        facts
            .unread
            .set(fields.any(|field| shape.may_leave_out(field) && !shape.takes(field, record)));
    }
    if facts.hashes && shape.name != ShapeName::Tokens {
        let pictures = match raw {
            _ if !takes.pictures => 0,
            RawContent::Row { batch, row } => pictures::hash_of_row(batch, row, expected.fields),
            _ => pictures::hash_of_record(record, expected.fields),
        };
        facts.content.set(Some(content_hash::of_record(record, shape).wrapping_add(pictures)));
    }
    let other_fields = || unread_fields(raw, |field| shape.is_telling(field));
    if let Some(fault) = shape.fault(record, other_fields, expected) {
        // Half a surrogate pair may be why it is of no other shape.
        let read = object(raw, |_| true).err();
        return Err(read.filter(|it| it.reason == Reason::LoneSurrogate).unwrap_or(fault));
    }
    if let Some(field) = shape.judgement() {
        let unread = unread_fields(raw, |it| it == field);
        if unread.as_ref().unwrap_or(record).get(field) == Some(&Json::Bool(false)) {
            return Err(shape::judged_bad(field));
        }
    }
    if !shape.entry().has_masks {
        loss_mask::refuse(record, shape)?;
    }
    let mut read = match shape.name {
        ShapeName::Conversations => {
            let field = shape.field(Part::Messages);
            messages::read(record, field, shape, takes).map(Record::Conversation)
        }
        ShapeName::PromptCompletion | ShapeName::Instruction | ShapeName::QuestionAnswer => {
            pair::read(record, shape, takes)
        }
        ShapeName::Text => text::read(record, shape.field(Part::Text)).map(Record::Text),
        ShapeName::Tokens => checked(record_tokens::read(record, shape)?),
        ShapeName::Preference => preference::read_pair(record, shape, takes).map(Record::Answers),
        ShapeName::UnpairedPreference => {
            preference::read_judged(record, shape, takes).map(Record::Answers)
        }
        ShapeName::Prompt => preference::read_prompt(record, shape, takes),
        ShapeName::LabelledText => labelled::read_text(record, shape).map(Record::Labelled),
        ShapeName::LabelledPair => labelled::read_pair(record, shape).map(Record::Labelled),
    }?;
    if takes.pictures {
        let column = match raw {
            RawContent::Row { batch, row } => pictures::of_row(batch, row, expected.fields)?,
            _ => pictures::of_record(record, expected.fields)?,
        };
        match &mut read {
            Record::Conversation(conversation) => {
                let is_without = column.is_none();
                pictures::attach(conversation, column)?;
                if is_without && pictures::has_mark_alone(conversation) {
                    refuse_other_pictures(raw, record, expected.fields, reads)?;
                }
            }
            Record::Pair(pair) if !pair.plain => {
                if column.is_none() && pictures::is_marked(pair) {
                    refuse_other_pictures(raw, record, expected.fields, reads)?;
                }
                pair.pictures = column;
            }
            _ if column.is_some_and(|column| !column.is_empty()) => {
                return Err(Fault::new(Reason::Picture, pictures::PICTURES_WITH_TEXTS));
            }
            _ => {}
        }
    }
    Ok(read)
}
