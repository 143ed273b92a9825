//! Pairs of a request and its answer: instructions, questions, prompts and completions.

use std::sync::Arc;

use super::messages::{self, MessageForms, optional};
use super::{flags, loss_mask};
use crate::config::Part;
use crate::record::kinds::{Conversation, Pair, Record};
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::parsing::json;
use crate::record::shape::Shape;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

pub(crate) fn read(record: &Map, shape: &Shape, takes: MessageForms) -> Result<Record, Fault> {
    let [request, answer] = shape.needed() else { unreachable!("a request and its answer") };
    let (request, answer) = (&*request.1, &*answer.1);
    let may_be_messages = shape.entry().text_or_messages.is_some();
    if may_be_messages {
        if !matches!(record[request], Json::String(_)) {
            return read_messages(record, shape, takes).map(Record::Conversation);
        }
        loss_mask::refuse(record, shape)?;
    }
    let text = |field: &str| match record.get(field) {
        Some(Json::String(text)) => Ok(text.to_string()),
        other => Err(wrong_type(field, "a string", other)),
    };
    let history = read_history(record, shape, takes)?;
    let pair = Pair {
        plain: may_be_messages,
        system: messages::read_system(record, shape)?,
        request: text(request)?,
        input: match shape.field_of(Part::Input, record) {
            "" => None,
            field => optional(record, field)?,
        },
        answer: text(answer)?,
        history_weights: flags::read(&history, shape.field_of(Part::History, record))?,
        history,
        pictures: None,
    };
    if pair.answer.is_empty() {
        return Err(Fault::new(Reason::Empty, format!("`{answer}` is empty")));
    }
    Ok(Record::Pair(pair))
}

/// The turns before a request: questions with their answers, or messages.
fn read_history(record: &Map, shape: &Shape, takes: MessageForms) -> Result<Vec<Arc<Map>>, Fault> {
    let field = shape.field_of(Part::History, record);
    let list = match json::unfold(record, field)? {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::List(list)) => list,
        other => {
            let expected = "a list of questions with their answers, or of messages";
            return Err(wrong_type(field, expected, other.as_ref()));
        }
    };
    let mut turns = Vec::with_capacity(2 * list.len());
    for (at, item) in list.iter().enumerate() {
        match item {
            Json::List(pair) => {
                let [question @ Json::String(_), answer @ Json::String(_)] = pair.as_slice() else {
                    let expected = "a question and its answer, two texts";
                    return Err(wrong_type(&format!("{field}[{at}]"), expected, Some(item)));
                };
                let turn = [("user", question), ("assistant", answer)];
                turns.extend(
                    turn.map(|(role, text)| Arc::new(messages::message(role, text.clone()))),
                );
            }
            message => turns.push(messages::read_message(message, field, at, takes)?),
        }
    }
    Ok(turns)
}

/// A prompt and a completion that are lists of messages, as one conversation.
fn read_messages(record: &Map, shape: &Shape, takes: MessageForms) -> Result<Conversation, Fault> {
    let (mut all, before) =
        messages::read_unmasked(record, shape.field(Part::Prompt), shape, takes)?;
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
    loss_mask::weigh(&mut all, before, record, shape)?;
    Ok(all)
}
