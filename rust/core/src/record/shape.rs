//! [`Shape`]: the fields that hold the content of a file's records, found once by its first records.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::parsing::fault::Fault;
use super::texts::texts_in;
use crate::config::PICTURE_COLUMNS;
use crate::config::inputs::fields;
use crate::config::{Fields, Part, ShapeName};
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The names of columns of ids, in records and tables.
#[derive(Clone, Copy, Debug)]
pub struct TokenColumns {
    /// The ids.
    pub input_ids: &'static str,
    /// The ids where trained, -100 elsewhere.
    pub labels: &'static str,
    /// The factor of each id's loss.
    pub loss_weights: &'static str,
    /// The fields that show packed rows in the compact layout, which are no documents.
    pub label_spans: [&'static str; 2],
}

impl TokenColumns {
    /// True if a record is a packed row in the compact layout. If its ids were read alone, its labels would
    /// be lost.
    fn packs(&self, record: &Map) -> bool {
        self.label_spans.iter().any(|field| record.contains_key(*field))
    }
}

/// The options that decide the shape of a file's records.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    /// The shape that the caller named.
    pub shape: Option<ShapeName>,
    /// The fields that the caller named.
    pub fields: &'a Fields,
    /// The names of columns of ids.
    pub columns: TokenColumns,
    /// The shapes that records may have, in the order in which they are tried.
    pub shapes: &'a [ShapeName],
}

impl Expectation<'_> {
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
}

impl Shape {
    /// Conversations under the usual field names.
    pub fn conversations() -> Self {
        let usual = |(part, field): (Part, &str)| (part, Arc::from(field));
        let parts = [
            (Part::Messages, fields::MESSAGES[0]),
            (Part::Tools, fields::TOOLS),
            (Part::System, fields::SYSTEMS[0]),
            (Part::System, fields::SYSTEMS[1]),
            (Part::LossMask, fields::LOSS_MASK[0]),
        ];
        Self::with(ShapeName::Conversations, parts.map(usual).into())
    }

    /// A shape with these parts.
    fn with(name: ShapeName, parts: Vec<(Part, Arc<str>)>) -> Self {
        let (rivals, telling, messages) = (Vec::new(), Vec::new(), None);
        let mut shape = Self { name, parts, rivals, telling, messages, unread: Vec::new() };
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
        if let Some(part) = self.deciding_part() {
            self.messages = is_list(record, self.field(part));
        }
        if self.messages == Some(false) {
            // Texts are rendered without the chat template. A completion with a system text is refused where it is read.
            let refuses = self.name == ShapeName::PromptCompletion;
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

    /// True for conversations, requests with answers and pairs of answers: pictures and long texts beside these may belong to them.
    /// A corpus has many columns beside its texts, and columns beside prompts become columns of the rows.
    fn is_dialogue(&self) -> bool {
        matches!(
            self.name,
            ShapeName::Conversations
                | ShapeName::PromptCompletion
                | ShapeName::Instruction
                | ShapeName::QuestionAnswer
                | ShapeName::Preference
                | ShapeName::UnpairedPreference
        )
    }

    /// The expected shape, or else the first that `record` has.
    pub(super) fn find(record: &Map, expected: Expectation<'_>) -> Option<Self> {
        if expected.columns.packs(record) {
            return None;
        }
        if let Some(name) = expected.name() {
            return Self::of(name, record, expected);
        }
        let (before, shape) = (0..)
            .zip(expected.shapes)
            .find_map(|(before, name)| Some((before, Self::of(*name, record, expected)?)))?;
        let required = expected.shapes[..before].iter().flat_map(|name| name.required());
        let needed = required.copied().flatten().copied().chain([expected.columns.input_ids]);
        let telling: Vec<Arc<str>> = needed.map(Arc::from).collect();
        let silent = |field: &&Arc<str>| !record.get(*field).is_some_and(says);
        let rivals = telling.iter().filter(silent).cloned().collect();
        Some(Self { rivals, telling, ..shape })
    }

    /// The part that is a text or a list of messages, as all others are.
    fn deciding_part(&self) -> Option<Part> {
        match self.name {
            ShapeName::PromptCompletion | ShapeName::UnpairedPreference | ShapeName::Prompt => {
                Some(Part::Prompt)
            }
            ShapeName::Preference => Some(Part::Chosen),
            _ => None,
        }
    }

    /// True if the prompt is a list of messages.
    pub fn has_messages(&self) -> bool {
        self.messages == Some(true)
    }

    /// True if a record with content in this field may have another shape than the first of its file.
    pub(super) fn is_rival(&self, field: &str) -> bool {
        self.rivals.iter().any(|rival| **rival == *field)
    }

    /// True for a field of a shape that is tried before this one.
    pub(super) fn is_telling(&self, field: &str) -> bool {
        self.telling.iter().any(|telling| **telling == *field)
    }

    /// This shape, if the record has its required fields.
    fn of(name: ShapeName, record: &Map, expected: Expectation<'_>) -> Option<Self> {
        let has = |field: &str| record.get(field).is_some_and(|value| *value != Json::Null);
        let named = |part: Part| expected.fields.get(part).map(Arc::from);
        // A field that the caller named is accepted without a check. Others must exist.
        // A field that is named for one part is not read as another.
        let is_named = |field: &str| expected.fields.0.values().any(|named| named == field);
        let field = |part: Part, usual: &[&str]| {
            let is_there = |field: &&str| has(field) && !is_named(field);
            let found = || usual.iter().copied().find(is_there).map(Arc::from);
            named(part).or_else(found).map(|field: Arc<str>| (part, field))
        };
        let or = |part: Part, usual: &[&str]| {
            let others = usual.iter().filter(|field| !is_named(field));
            named(part).map_or_else(
                || others.map(|field| (part, Arc::from(*field))).collect(),
                |field| vec![(part, field)],
            )
        };
        let label = || {
            let several = named(Part::Labels).map(|field| (Part::Label, field));
            several.or_else(|| field(Part::Label, &fields::LABELS))
        };
        let (mut parts, optional) = match name {
            ShapeName::Tokens => (
                vec![field(Part::InputIds, &[expected.columns.input_ids])?],
                vec![
                    or(Part::Labels, &[expected.columns.labels]),
                    or(Part::AttentionMask, &[fields::ATTENTION_MASK]),
                    or(Part::AssistantMasks, &fields::MASKS),
                    or(Part::LossWeights, &[expected.columns.loss_weights]),
                ],
            ),
            ShapeName::Conversations => (
                vec![field(Part::Messages, &fields::MESSAGES)?],
                vec![or(Part::Tools, &[fields::TOOLS]), or(Part::System, &fields::SYSTEMS)],
            ),
            ShapeName::PromptCompletion => (
                vec![
                    field(Part::Prompt, &fields::PROMPT)?,
                    field(Part::Completion, &fields::COMPLETION)?,
                ],
                vec![or(Part::Tools, &[fields::TOOLS]), or(Part::System, &fields::SYSTEMS)],
            ),
            ShapeName::Instruction => (
                vec![
                    field(Part::Instruction, &fields::INSTRUCTION)?,
                    field(Part::Output, &fields::OUTPUT)?,
                ],
                vec![
                    or(Part::Input, &fields::INPUT),
                    or(Part::System, &fields::SYSTEMS),
                    or(Part::History, &fields::HISTORY),
                ],
            ),
            ShapeName::QuestionAnswer => (
                vec![
                    field(Part::Question, &fields::QUESTION)?,
                    field(Part::Answer, &fields::ANSWER)?,
                ],
                vec![or(Part::System, &fields::SYSTEMS), or(Part::History, &fields::HISTORY)],
            ),
            ShapeName::Text => (vec![field(Part::Text, &fields::TEXT)?], Vec::new()),
            ShapeName::Preference => (
                vec![
                    field(Part::Chosen, &fields::CHOSEN)?,
                    field(Part::Rejected, &fields::REJECTED)?,
                ],
                vec![
                    or(Part::Prompt, &fields::PROMPT),
                    or(Part::Tools, &[fields::TOOLS]),
                    or(Part::System, &fields::SYSTEMS),
                ],
            ),
            ShapeName::UnpairedPreference => (
                vec![
                    field(Part::Prompt, &fields::PROMPT)?,
                    field(Part::Completion, &fields::COMPLETION)?,
                    field(Part::Label, &fields::LABEL)?,
                ],
                vec![or(Part::Tools, &[fields::TOOLS]), or(Part::System, &fields::SYSTEMS)],
            ),
            ShapeName::LabelledText => {
                (vec![field(Part::Text, &fields::TEXT)?, label()?], Vec::new())
            }
            ShapeName::LabelledPair => (
                vec![
                    field(Part::Sentence1, &fields::SENTENCE1)?,
                    field(Part::Sentence2, &fields::SENTENCE2)?,
                    label()?,
                ],
                Vec::new(),
            ),
            ShapeName::Prompt => (
                vec![field(Part::Prompt, &fields::PROMPT)?],
                vec![or(Part::Tools, &[fields::TOOLS]), or(Part::System, &fields::SYSTEMS)],
            ),
        };
        parts.extend(optional.into_iter().flatten());
        parts.extend(or(Part::LossMask, &fields::LOSS_MASK));
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

    /// All fields that records are read from, those that show other shapes, and those that may hold content.
    pub fn columns(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|(_, field)| field).chain(&self.telling);
        let unread = self.unread.iter().map(ToString::to_string);
        let others = unread.chain([fields::TEMPLATE_KWARGS.to_owned()]);
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
        let is_taken = match self.name {
            // Ids stand for texts that may be beside them.
            ShapeName::Tokens => true,
            // The generated text is compared with the answers.
            ShapeName::Prompt => fields::is_answer(field),
            _ => false,
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

    /// True if the chat template sees the record's own `chat_template_kwargs`.
    pub(super) fn takes_kwargs(&self) -> bool {
        self.name == ShapeName::Conversations || self.has_messages()
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
    fn needed(&self) -> &[(Part, Arc<str>)] {
        &self.parts[..self.name.required().len().max(1)]
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
        expected: Expectation<'_>,
    ) -> Option<Fault> {
        self.missing(record, expected).or_else(|| self.mixed(record, other_fields, expected))
    }

    /// The fault of a record that has all fields of this shape, and also fields of another shape that the
    /// first record had not.
    fn mixed(
        &self,
        record: &Map,
        other_fields: impl FnOnce() -> Option<Map>,
        expected: Expectation<'_>,
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
        let (messages, part) = (self.messages?, self.deciding_part()?);
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
    fn missing(&self, record: &Map, expected: Expectation<'_>) -> Option<Fault> {
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

/// The fault of a record without a shape.
pub(super) fn unknown(record: &Map, expected: Expectation<'_>) -> Fault {
    if expected.columns.packs(record) {
        let message = "this is a packed row in the compact layout, which is no document; pack the files that it was made \
                       of, or `repack` a folder with keep_tokens=True";
        return Fault::new(Reason::NoContent, message.to_owned());
    }
    let wanted = match expected.name() {
        Some(name) => format!("the fields of the shape `{}`", name.name()),
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
            expected.columns.input_ids,
        ),
        None => {
            let shapes = expected.shapes.iter().map(|shape| {
                let fields: Vec<_> =
                    shape.required().iter().map(|fields| format!("`{}`", fields[0])).collect();
                fields.join(", ")
            });
            shapes.collect::<Vec<_>>().join(" or ")
        }
    };
    let message =
        format!("expected {wanted}, found {}; name others with `reading.fields`", found(record));
    Fault::new(Reason::NoContent, message)
}
