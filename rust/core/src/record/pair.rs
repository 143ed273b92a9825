//! Pairs of a request and what answers it: instructions, questions, prompts and completions.

use super::messages::{self, Takes};
use super::shape::Shape;
use super::{Conversation, Fault, Record, flags, wrong_type};
use crate::config::{Part, ShapeName};
use crate::ledger::Reason;
use fastpack_template::json::{Map, Value};

/// A request, and the text that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Whether the two are joined as they are: a prompt and its completion.
    pub plain: bool,
    /// What is said before the request, if anything.
    pub system: Option<String>,
    /// The instruction, question or prompt.
    pub request: String,
    /// What the instruction is about, if anything.
    pub input: Option<String>,
    /// The output, answer or completion.
    pub answer: String,
}

pub(super) fn read(record: &Map, shape: &Shape, takes: Takes) -> Result<Record, Fault> {
    let (request, answer) = match shape.name {
        ShapeName::PromptCompletion => (Part::Prompt, Part::Completion),
        ShapeName::Instruction => (Part::Instruction, Part::Output),
        _ => (Part::Question, Part::Answer),
    };
    let (request, answer) = (shape.field(request), shape.field(answer));
    if shape.name == ShapeName::PromptCompletion && !matches!(record[request], Value::String(_)) {
        return read_messages(record, shape, takes).map(Record::Conversation);
    }
    let text = |field: &str| match record.get(field) {
        Some(Value::String(text)) => Ok(text.to_string()),
        other => Err(wrong_type(field, "a string", other)),
    };
    let pair = Pair {
        plain: shape.name == ShapeName::PromptCompletion,
        system: messages::read_system(record, shape)?,
        request: text(request)?,
        input: match shape.field_of(Part::Input, record) {
            "" => None,
            field => optional(record, field)?,
        },
        answer: text(answer)?,
    };
    if pair.answer.is_empty() {
        return Err(Fault::new(Reason::Empty, format!("`{answer}` is empty")));
    }
    Ok(Record::Pair(pair))
}

/// A text that may be absent, null or empty, which all mean that there is none.
pub(super) fn optional(record: &Map, field: &str) -> Result<Option<String>, Fault> {
    match record.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.to_string())),
        other => Err(wrong_type(field, "a string", other)),
    }
}

/// A prompt and a completion that are lists of messages: one conversation.
fn read_messages(record: &Map, shape: &Shape, takes: Takes) -> Result<Conversation, Fault> {
    let mut all = messages::read(record, shape.field(Part::Prompt), shape, takes)?;
    let completion = messages::read_list(record, shape.field(Part::Completion), takes)?;
    let own = flags::read(&completion, shape.field(Part::Completion))?;
    let prompt = all.messages.len();
    if own.is_some() || all.weights.is_some() {
        let mut weights = all.weights.take().unwrap_or_else(|| vec![None; prompt]);
        weights.extend(own.unwrap_or_else(|| vec![None; completion.len()]));
        all.weights = Some(weights);
    }
    all.messages.extend(completion);
    all.prompt = Some(prompt);
    Ok(all)
}
