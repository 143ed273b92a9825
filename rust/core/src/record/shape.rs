//! [`Shape`]: where in the records of a file their content stands. It is found once a file, by its first records.

use std::fmt;
use std::sync::Arc;

use super::value::{Map, Value};
use super::{Fault, messages, pair, text, tokens};
use crate::config::{Fields, Part, ShapeName};
use crate::ledger::Reason;

/// The names of columns of ids, which records and tables share.
#[derive(Clone, Copy, Debug)]
pub struct TokenColumns {
    /// The ids.
    pub input_ids: &'static str,
    /// The ids where trained, -100 elsewhere.
    pub labels: &'static str,
    /// What the loss of each id is multiplied by.
    pub loss_weights: &'static str,
}

/// What decides how the records of a file are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    /// The shape that was named.
    pub shape: Option<ShapeName>,
    /// The fields that were named.
    pub fields: &'a Fields,
    /// What columns of ids are called.
    pub columns: TokenColumns,
}

/// Where in the records of a file their content stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) name: ShapeName,
    /// Each part and its field; those that the shape cannot do without come first. A part that it can do without may
    /// have several: a record has it in whichever it has.
    pub(super) parts: Vec<(Part, Arc<str>)>,
}

impl Shape {
    /// Conversations under their usual names.
    pub fn conversations() -> Self {
        let usual = |(part, field): (Part, &str)| (part, Arc::from(field));
        let parts = [
            (Part::Messages, messages::FIELDS[0]),
            (Part::Tools, messages::TOOLS),
            (Part::System, messages::SYSTEMS[0]),
            (Part::System, messages::SYSTEMS[1]),
        ];
        Self { name: ShapeName::Conversations, parts: parts.map(usual).into() }
    }

    /// The shape that is expected, or else the first that `record` has.
    pub(super) fn find(record: &Map, expected: Expectation<'_>) -> Option<Self> {
        let all = [
            ShapeName::Tokens,
            ShapeName::Conversations,
            ShapeName::PromptCompletion,
            ShapeName::Instruction,
            ShapeName::QuestionAnswer,
            ShapeName::Text,
        ];
        match expected.shape.or_else(|| expected.fields.shape()) {
            Some(name) => Self::of(name, record, expected),
            None => all.into_iter().find_map(|name| Self::of(name, record, expected)),
        }
    }

    /// This shape, if the record has the fields that it cannot do without.
    fn of(name: ShapeName, record: &Map, expected: Expectation<'_>) -> Option<Self> {
        let has = |field: &str| record.get(field).is_some_and(|value| *value != Value::Null);
        let named = |part: Part| expected.fields.get(part).map(Arc::from);
        // What was named is taken at its word; what was not has to be there.
        let field = |part: Part, usual: &[&str]| {
            let found = || usual.iter().copied().find(|field| has(field)).map(Arc::from);
            named(part).or_else(found).map(|field: Arc<str>| (part, field))
        };
        let or = |part: Part, usual: &[&str]| match named(part) {
            Some(field) => vec![(part, field)],
            None => usual.iter().map(|field| (part, Arc::from(*field))).collect(),
        };
        let (mut parts, optional) = match name {
            ShapeName::Tokens => (
                vec![field(Part::InputIds, &[expected.columns.input_ids])?],
                vec![
                    or(Part::Labels, &[expected.columns.labels]),
                    or(Part::AttentionMask, &[tokens::ATTENTION_MASK]),
                    or(Part::AssistantMasks, &tokens::MASKS),
                    or(Part::LossWeights, &[expected.columns.loss_weights]),
                ],
            ),
            ShapeName::Conversations => (
                vec![field(Part::Messages, &messages::FIELDS)?],
                vec![or(Part::Tools, &[messages::TOOLS]), or(Part::System, &messages::SYSTEMS)],
            ),
            ShapeName::PromptCompletion => (
                vec![
                    field(Part::Prompt, &[pair::PROMPT])?,
                    field(Part::Completion, &[pair::COMPLETION])?,
                ],
                vec![or(Part::Tools, &[messages::TOOLS]), or(Part::System, &messages::SYSTEMS)],
            ),
            ShapeName::Instruction => (
                vec![
                    field(Part::Instruction, &[pair::INSTRUCTION])?,
                    field(Part::Output, &pair::OUTPUTS)?,
                ],
                vec![or(Part::Input, &pair::INPUTS), or(Part::System, &messages::SYSTEMS)],
            ),
            ShapeName::QuestionAnswer => (
                vec![
                    field(Part::Question, &pair::QUESTIONS)?,
                    field(Part::Answer, &pair::ANSWERS)?,
                ],
                vec![or(Part::System, &messages::SYSTEMS)],
            ),
            ShapeName::Text => (vec![field(Part::Text, &[text::FIELD])?], Vec::new()),
        };
        parts.extend(optional.into_iter().flatten());
        Some(Self { name, parts })
    }

    /// The field of a part.
    pub(super) fn field(&self, part: Part) -> &str {
        let found = self.parts.iter().find(|(known, _)| *known == part);
        found.map_or("", |(_, field)| field)
    }

    /// The field in which `record` has a part that it need not have: the first that says something.
    pub(super) fn field_of(&self, part: Part, record: &Map) -> &str {
        let says = |field: &str| match record.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.trim().is_empty(),
            Some(_) => true,
        };
        let mut fields = self.parts.iter().filter(|(known, _)| *known == part);
        let found = fields.find(|(_, field)| says(field));
        found.map_or_else(|| self.field(part), |(_, field)| field)
    }

    /// All fields that records are read from.
    pub fn columns(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|(_, field)| field.to_string());
        parts.chain([messages::TEMPLATE_KWARGS.to_owned()]).collect()
    }

    /// Whether records are read from this field.
    pub(super) fn reads(&self, field: &str) -> bool {
        self.parts.iter().any(|(_, known)| **known == *field) || field == messages::TEMPLATE_KWARGS
    }

    /// Which shape it is.
    pub fn name(&self) -> ShapeName {
        self.name
    }

    /// The fields that every record has, and those of the others that `record` has: what a report names.
    pub(super) fn fields_of(&self, record: &Map) -> Vec<String> {
        let held = self.parts.iter().filter(|(_, field)| record.contains_key(field));
        held.map(|(_, field)| field.to_string()).collect()
    }

    /// The fault of a record that has not got a field of this shape.
    pub(super) fn missing(&self, record: &Map, expected: Expectation<'_>) -> Option<Fault> {
        let needed = match self.name {
            ShapeName::PromptCompletion | ShapeName::Instruction | ShapeName::QuestionAnswer => 2,
            ShapeName::Tokens | ShapeName::Conversations | ShapeName::Text => 1,
        };
        let absent = |field: &str| matches!(record.get(field), None | Some(Value::Null));
        let (_, field) = self.parts[..needed].iter().find(|(_, field)| absent(field))?;
        let named = expected.shape.is_some() || expected.fields.shape().is_some();
        let other = Self::find(record, expected).filter(|_| !named);
        Some(match other {
            Some(other) => Fault::new(
                Reason::OtherShape,
                format!(
                    "the records of a file must have one shape; this one is {other}, those before it {self}"
                ),
            ),
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
        let needed = self.parts.len().min(match self.name {
            ShapeName::PromptCompletion | ShapeName::Instruction | ShapeName::QuestionAnswer => 2,
            ShapeName::Tokens | ShapeName::Conversations | ShapeName::Text => 1,
        });
        let fields: Vec<String> =
            self.parts[..needed].iter().map(|(_, field)| format!("`{field}`")).collect();
        write!(f, "`{}` ({})", self.name.name(), fields.join(", "))
    }
}

/// The fields of a record, as a message names them.
pub(super) fn found(record: &Map) -> String {
    let found: Vec<String> = record.keys().map(|key| format!("`{key}`")).collect();
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}

/// The fault of a record that has no shape.
pub(super) fn unknown(record: &Map, expected: Expectation<'_>) -> Fault {
    let wanted = match expected.shape.or_else(|| expected.fields.shape()) {
        Some(name) => format!("the fields of the shape `{}`", name.name()),
        None => format!(
            "a conversation (`{}`), `{}` and `{}`, `{}` and `{}`, a question and an answer, `{}` or `{}`",
            messages::FIELDS.join("`, `"),
            pair::PROMPT,
            pair::COMPLETION,
            pair::INSTRUCTION,
            pair::OUTPUTS[0],
            text::FIELD,
            expected.columns.input_ids,
        ),
    };
    let message = format!("expected {wanted}, found {}; name others with `fields`", found(record));
    Fault::new(Reason::NoContent, message)
}
