//! [`Shape`]: the fields that hold the content of a file's records, found once by its first records.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::parsing::fault::Fault;
use super::texts::texts_in;
use crate::config::inputs::fields;
use crate::config::inputs::shape_table::LOSS_MASK;
use crate::config::{
    ContentForm, Fields, LABEL_SPANS, OtherFields, PICTURE_COLUMNS, Part, PartFields, ShapeEntry,
    ShapeName,
};
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The options that decide the shape of a file's records.
#[derive(Clone, Copy, Debug)]
pub struct ShapeOptions<'a> {
    /// The shape that the caller named.
    pub shape: Option<ShapeName>,
    /// The fields that the caller named.
    pub fields: &'a Fields,
    /// The shapes that records may have, in the order in which they are tried.
    pub shapes: &'a [ShapeName],
}

impl ShapeOptions<'_> {
    /// The shape that the caller named, by itself or by its fields.
    fn name(&self) -> Option<ShapeName> {
        self.shape.or_else(|| self.fields.shape(self.shapes))
    }
}

/// The fields that hold the content of a file's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) name: ShapeName,
    /// Each part and its field, the required ones first. An optional part may have several fields; a record
    /// has one of them.
    pub(super) parts: Vec<(Part, Arc<str>)>,
    /// Fields that are empty in the first record, and would give a record another shape.
    rivals: Vec<Arc<str>>,
    /// The fields of the shapes that are tried before this one.
    telling: Vec<Arc<str>>,
    /// True if the prompts of the shape are lists of messages; `None` if unknown, or without prompts.
    messages: Option<bool>,
    /// The fields that hold content, by their usual names or by long texts in the first record, and are not read from every
    /// record.
    unread: Vec<Cow<'static, str>>,
    /// The field that may judge the answer of a record; `None` for shapes without one, and where the caller named the shape.
    judgement: Option<&'static str>,
}

impl Shape {
    /// Conversations under the usual field names.
    pub fn conversations() -> Self {
        let entry = ShapeName::Conversations.entry();
        let usual = |it: &PartFields, field: &&str| (it.part, Arc::from(*field));
        let required = entry.required.iter().map(|it| usual(it, &it.fields[0]));
        let optional = entry.optional.iter().chain([&LOSS_MASK]);
        let optional = optional.flat_map(|it| it.fields.iter().map(move |field| usual(it, field)));
        Self::with(ShapeName::Conversations, required.chain(optional).collect())
    }

    /// A shape with these parts.
    fn with(name: ShapeName, parts: Vec<(Part, Arc<str>)>) -> Self {
        let (rivals, telling, messages) = (Vec::new(), Vec::new(), None);
        let unread = Vec::new();
        let mut shape = Self { name, parts, rivals, telling, messages, unread, judgement: None };
        shape.unread = shape.never_read_fields();
        shape
    }

    /// The fields that usually hold content, and are not read from every record.
    fn never_read_fields(&self) -> Vec<Cow<'static, str>> {
        let pictures = if self.is_dialogue() { &PICTURE_COLUMNS[..] } else { &[] };
        let fields = fields::text_fields().chain(pictures.iter().copied());
        fields.filter(|field| self.never_reads(field)).map(Cow::Borrowed).collect()
    }

    /// Learns from the first record the form of the prompts, and the unread fields with long texts.
    fn learn_from(&mut self, record: &Map) {
        if let Some(part) = self.entry().text_or_messages {
            self.messages = is_list(record, self.field(part));
        }
        if self.messages == Some(false) {
            // Texts are rendered without the chat template. A completion with a system text is refused where it is read.
            let refuses = self.entry().form == ContentForm::PromptFormat;
            self.parts.retain(|(part, _)| match part {
                Part::Tools => false,
                Part::System => refuses,
                _ => true,
            });
            self.unread = self.never_read_fields();
        }
        let is_known = |field: &str| self.is_unread_text(field) || !self.never_reads(field);
        let long = record.iter().filter(|(field, value)| {
            self.is_dialogue() && !is_known(field) && has_long_text(value)
        });
        let long: Vec<_> = long.map(|(field, _)| Cow::Owned(field.to_string())).collect();
        self.unread.extend(long);
    }

    /// True for conversations, requests with answers, and pairs of answers.
    pub(crate) fn is_dialogue(&self) -> bool {
        self.entry().others == OtherFields::MayBelong
    }

    /// The expected shape, or else the first that `record` has.
    pub(super) fn find(record: &Map, expected: ShapeOptions<'_>) -> Option<Self> {
        if is_packed_row(record) {
            return None;
        }
        if let Some(name) = expected.name() {
            return Self::of(name, record, expected);
        }
        let (before, shape) = (0..)
            .zip(expected.shapes)
            .find_map(|(before, name)| Some((before, Self::of(*name, record, expected)?)))?;
        let required = expected.shapes[..before].iter().flat_map(|name| name.entry().required);
        let telling = required.flat_map(|it| it.fields).map(|field| Arc::from(*field));
        let telling: Vec<Arc<str>> = telling.collect();
        let silent = |field: &&Arc<str>| !record.get(*field).is_some_and(says);
        let rivals = telling.iter().filter(silent).cloned().collect();
        let judgement = (shape.name == ShapeName::PromptCompletion).then_some(fields::LABEL[0]);
        Some(Self { rivals, telling, judgement, ..shape })
    }

    /// True if the prompt is a list of messages.
    pub fn has_messages(&self) -> bool {
        self.messages == Some(true)
    }

    /// True if a record with content in this field may have another shape than the first of its file.
    pub(super) fn is_rival(&self, field: &str) -> bool {
        self.rivals.iter().any(|rival| **rival == *field)
    }

    /// The field that may judge the answer of a record.
    pub(super) fn judgement(&self) -> Option<&'static str> {
        self.judgement
    }

    /// True for a field of a shape that is tried before this one.
    pub(super) fn is_telling(&self, field: &str) -> bool {
        self.telling.iter().any(|telling| **telling == *field)
    }

    /// This shape, if the record has its required fields.
    fn of(name: ShapeName, record: &Map, expected: ShapeOptions<'_>) -> Option<Self> {
        let has = |field: &str| record.get(field).is_some_and(|value| *value != Json::Null);
        // A field that the caller named is accepted without a check. Others must exist.
        // A field that is named for one part is not read as another.
        let is_named = |field: &str| expected.fields.0.values().any(|named| named == field);
        let named = |it: &PartFields| it.names().find_map(|part| expected.fields.get(part));
        let required = |it: &PartFields| {
            let is_there = |field: &&str| has(field) && !is_named(field);
            let field = named(it).or_else(|| it.fields.iter().copied().find(is_there))?;
            Some((it.part, Arc::from(field)))
        };
        let optional = |it: &PartFields| {
            let others = it.fields.iter().copied().filter(|field| !is_named(field));
            let fields = named(it).map_or_else(|| others.collect(), |field| vec![field]);
            fields.into_iter().map(|field| (it.part, Arc::from(field))).collect::<Vec<_>>()
        };
        let entry = name.entry();
        let mut parts: Vec<_> = entry.required.iter().map(required).collect::<Option<_>>()?;
        parts.extend(entry.optional.iter().chain([&LOSS_MASK]).flat_map(optional));
        let mut shape = Self::with(name, parts);
        shape.learn_from(record);
        Some(shape)
    }

    /// The field of a part.
    pub(super) fn field(&self, part: Part) -> &str {
        let found = self.parts.iter().find(|(known, _)| *known == part);
        found.map_or("", |(_, field)| field)
    }

    /// The fields of a part, the usual one first.
    pub(super) fn fields(&self, part: Part) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(move |(known, _)| *known == part).map(|(_, field)| &**field)
    }

    /// The field of an optional part in `record`: the first with content.
    pub(super) fn field_of(&self, part: Part, record: &Map) -> &str {
        let says = |field: &str| match record.get(field) {
            // An empty list is checked where it is read.
            Some(Json::List(_)) => true,
            value => value.is_some_and(says),
        };
        let mut fields = self.parts.iter().filter(|(known, _)| *known == part);
        let found = fields.find(|(_, field)| says(field));
        found.map_or_else(|| self.field(part), |(_, field)| field)
    }

    /// The parts of records of this shape, each with the field that it is read from in `record`.
    pub(super) fn parts_read<'s>(
        &'s self,
        record: &'s Map,
    ) -> impl Iterator<Item = (Part, &'s str)> {
        let is_first = |(at, (part, _)): &(usize, &(Part, Arc<str>))| {
            self.parts[..*at].iter().all(|(before, _)| before != part)
        };
        let parts = self.parts.iter().enumerate().filter(is_first);
        parts.map(|(_, (part, _))| (*part, self.field_of(*part, record)))
    }

    /// All fields that records are read from, those that show other shapes or judge answers, and those that may hold content.
    pub fn columns(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|(_, field)| field).chain(&self.telling);
        let unread = self.unread.iter().map(ToString::to_string);
        let judgement = self.judgement.map(str::to_owned);
        let others = unread.chain([fields::TEMPLATE_KWARGS.to_owned()]).chain(judgement);
        parts.map(ToString::to_string).chain(others).collect()
    }

    /// Tells text fields that are not read from every record.
    pub(super) fn is_unread_text(&self, field: &str) -> bool {
        self.unread.iter().any(|unread| **unread == *field)
    }

    /// True for a field of which something may be left out: of variables those that the chat template does not read.
    pub(super) fn may_leave_out(&self, field: &str) -> bool {
        self.is_unread_text(field) || field == fields::TEMPLATE_KWARGS
    }

    /// Tells text fields that the shape does not read, or not always.
    fn never_reads(&self, field: &str) -> bool {
        let is_taken = match self.entry().others {
            OtherFields::TextsOfIds => true,
            OtherFields::BecomeColumns => fields::is_answer(field),
            OtherFields::MayBelong | OtherFields::OfCorpus => false,
        };
        let mut parts = self.parts.iter().filter(|(_, known)| **known == *field);
        let is_read = parts.any(|(part, _)| self.fields(*part).count() == 1);
        !is_taken && !is_read
    }

    /// True if a part is read from this field of `record`.
    pub(super) fn takes(&self, field: &str, record: &Map) -> bool {
        let mut parts = self.parts.iter().filter(|(_, known)| **known == *field);
        parts.any(|(part, _)| self.field_of(*part, record) == field)
    }

    /// True if its records are messages, which the chat template renders. It sees their own `chat_template_kwargs`.
    pub(crate) fn is_of_messages(&self) -> bool {
        self.entry().form == ContentForm::ChatTemplate || self.has_messages()
    }

    /// True if this field of a record is needed.
    pub(super) fn wants(&self, field: &str) -> bool {
        self.reads(field) || self.is_rival(field)
    }

    /// True if records are read from this field.
    pub(super) fn reads(&self, field: &str) -> bool {
        self.parts.iter().any(|(_, known)| **known == *field) || field == fields::TEMPLATE_KWARGS
    }

    /// The required parts, which come first.
    pub(super) fn needed(&self) -> &[(Part, Arc<str>)] {
        &self.parts[..self.entry().required.len()]
    }

    /// The entry of its name in the table of shapes.
    pub(crate) fn entry(&self) -> &'static ShapeEntry {
        self.name.entry()
    }

    /// The name of the shape.
    pub fn name(&self) -> ShapeName {
        self.name
    }

    /// The required fields, and the optional ones that `record` has, for a report.
    pub(super) fn fields_of(&self, record: &Map) -> Vec<String> {
        let held = self.parts.iter().filter(|(_, field)| record.contains_key(field));
        held.map(|(_, field)| field.to_string()).collect()
    }

    /// The fault of a record that is not of this shape. `other_fields` gives its fields that are not read.
    pub(super) fn fault(
        &self,
        record: &Map,
        other_fields: impl FnOnce() -> Option<Map>,
        expected: ShapeOptions<'_>,
    ) -> Option<Fault> {
        self.missing(record, expected).or_else(|| self.mixed(record, other_fields, expected))
    }

    /// The fault of a record that has all fields of this shape, and also fields of another shape that the
    /// first record had not.
    fn mixed(
        &self,
        record: &Map,
        other_fields: impl FnOnce() -> Option<Map>,
        expected: ShapeOptions<'_>,
    ) -> Option<Fault> {
        let other_fields =
            if self.rivals.is_empty() { None } else { other_fields() }.unwrap_or_default();
        let speaks = |field: &Arc<str>| {
            [record, &other_fields].into_iter().any(|part| part.get(field).is_some_and(says))
        };
        if self.rivals.iter().any(speaks) {
            let all = record.iter().chain(&other_fields).filter(|(_, value)| says(value));
            let filled = all.map(|(name, value)| (Arc::clone(name), value.clone())).collect();
            if let Some(other) = Self::find(&filled, expected).filter(|it| it.name != self.name) {
                return Some(self.other(&other));
            }
        }
        let (messages, part) = (self.messages?, self.entry().text_or_messages?);
        let is_other = is_list(record, self.field(part))? != messages;
        is_other.then(|| {
            let [this, before] =
                if messages { ["a text", "lists of messages"] } else { ["a list", "texts"] };
            let message = format!(
                "the records of a file must have one shape; the `{}` of this one is {this}, those before it are {before}",
                self.field(part)
            );
            Fault::new(Reason::OtherShape, message)
        })
    }

    fn other(&self, other: &Self) -> Fault {
        let message = format!(
            "the records of a file must have one shape; this one is {other}, those before it {self}"
        );
        Fault::new(Reason::OtherShape, message)
    }

    /// The fault of a record without a required field of this shape.
    fn missing(&self, record: &Map, expected: ShapeOptions<'_>) -> Option<Fault> {
        let absent = |field: &str| matches!(record.get(field), None | Some(Json::Null));
        let (_, field) = self.needed().iter().find(|(_, field)| absent(field))?;
        let other = Self::find(record, expected).filter(|_| expected.name().is_none());
        Some(match other {
            Some(other) => self.other(&other),
            None if record.contains_key(&**field) => {
                Fault::new(Reason::WrongType, format!("`{field}` is null"))
            }
            None => Fault::new(
                Reason::NoContent,
                format!("expected the field `{field}`, found {}", found(record)),
            ),
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<String> =
            self.needed().iter().map(|(_, field)| format!("`{field}`")).collect();
        write!(f, "`{}` ({})", self.name.name(), fields.join(", "))
    }
}

/// True if a record is a packed row in the compact layout. If its ids were read alone, its labels would be lost.
fn is_packed_row(record: &Map) -> bool {
    LABEL_SPANS.iter().any(|field| record.contains_key(*field))
}

/// Characters from which on a text is content, rather than the name of a source or a class.
const LONG: usize = 200;

/// True if a value has a long text of several words.
fn has_long_text(value: &Json) -> bool {
    let mut texts = Vec::new();
    texts_in(value, &mut texts);
    let is_long =
        |text: &&str| text.len() >= LONG && text.split_whitespace().nth(LONG / 10).is_some();
    texts.iter().any(is_long)
}

/// True if a value has content.
fn says(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::String(text) => !text.trim().is_empty(),
        Json::List(items) => !items.is_empty(),
        _ => true,
    }
}

/// True if a prompt is a list of messages, false if it is a text, `None` if it is neither.
fn is_list(record: &Map, prompt: &str) -> Option<bool> {
    match record.get(prompt)? {
        Json::String(_) => Some(false),
        Json::List(_) => Some(true),
        _ => None,
    }
}

/// The fields of a record, for a message.
pub(super) fn found(record: &Map) -> String {
    let found: Vec<String> = record.keys().map(|key| format!("`{key}`")).collect();
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}

/// The fault of a record that judges its answer as one to avoid, in this field.
pub(super) fn judged_bad(field: &str) -> Fault {
    let message = format!(
        "`{field}` is false, so the completion is one to avoid, and would be trained as one to give; take such records out \
         with `filter`, or pack for the objective `preference`; to train on all of them, name the shape \
         `{}` with `reading`",
        ShapeName::PromptCompletion.name()
    );
    Fault::new(Reason::OtherShape, message)
}

/// The fault of a record without a shape.
pub(super) fn unknown(record: &Map, expected: ShapeOptions<'_>) -> Fault {
    if is_packed_row(record) {
        let message = "this is a packed row in the compact layout, which is no document; pack the files that it was made \
                       of, or `repack` a folder with keep_tokens=True";
        return Fault::new(Reason::NoContent, message.to_owned());
    }
    let wanted = match expected.name() {
        Some(name) => {
            let required = name.entry().required.iter().map(|it| {
                let named = it.names().find_map(|part| expected.fields.get(part));
                format!("`{}`", named.unwrap_or(it.fields[0]))
            });
            let required = required.collect::<Vec<_>>().join(" and ");
            format!("{required}, the fields of the shape `{}`", name.name())
        }
        None if expected.shapes.contains(&ShapeName::Text) => format!(
            "a conversation (`{}`), {}`{}` and `{}`, a question and an answer, `{}` or `{}`",
            fields::MESSAGES.join("`, `"),
            if expected.shapes.contains(&ShapeName::Prompt) {
                format!("`{}`, ", fields::PROMPT[0])
            } else {
                format!("`{}` and `{}`, ", fields::PROMPT[0], fields::COMPLETION[0])
            },
            fields::INSTRUCTION[0],
            fields::OUTPUT[0],
            fields::TEXT[0],
            fields::INPUT_IDS[0],
        ),
        None => {
            let shapes = expected.shapes.iter().map(|shape| {
                let required = shape.entry().required.iter();
                required.map(|it| format!("`{}`", it.fields[0])).collect::<Vec<_>>().join(", ")
            });
            shapes.collect::<Vec<_>>().join(" or ")
        }
    };
    let has = |field: &str| record.keys().any(|key| key.trim().eq_ignore_ascii_case(field));
    let is_pair = has("chosen") && has("rejected");
    let remedy = if is_pair && !expected.shapes.contains(&ShapeName::Preference) {
        "pairs of preferences take the objective `preference`"
    } else {
        "name others with `reading.fields`"
    };
    let message = format!("expected {wanted}, found {}; {remedy}", found(record));
    Fault::new(Reason::NoContent, message)
}
