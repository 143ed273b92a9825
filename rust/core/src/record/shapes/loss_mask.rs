//! The mask of a record, with an entry for each message of a conversation.

use super::flags::{TRAINED, WEIGHT, speaks, untrainable};
use crate::config::Part;
use crate::record::kinds::Conversation;
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::parsing::json;
use crate::record::shape::Shape;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// Weighs the messages of a conversation by the record's own mask, if it has one. The mask has no entries for the first
/// `before` messages.
pub(crate) fn weigh(
    conversation: &mut Conversation,
    before: usize,
    record: &Map,
    shape: &Shape,
) -> Result<(), Fault> {
    let field = shape.field_of(Part::LossMask, record);
    let marks = match json::unfold(record, field)? {
        None | Some(Json::Null) => return Ok(()),
        Some(Json::List(marks)) => marks,
        other => {
            return Err(wrong_type(field, "a list with an entry for each message", other.as_ref()));
        }
    };
    let messages = &conversation.messages;
    if marks.len() != messages.len() - before {
        let (entries, messages) = (marks.len(), messages.len() - before);
        let message = format!(
            "`{field}` has {entries} entries for {messages} messages; of a conversation it has one for each message"
        );
        return Err(Fault::new(Reason::WrongType, message));
    }
    let weights = conversation.weights.get_or_insert_with(|| vec![None; messages.len()]);
    let each = messages.iter().zip(weights).skip(before).zip(marks.iter());
    for (at, ((message, weight), mark)) in each.enumerate() {
        let place = format!("{field}[{at}]");
        let trained = match mark {
            Json::Bool(trained) => *trained,
            Json::Int(mark @ (0 | 1)) => *mark == 1,
            other => return Err(wrong_type(&place, "0 or 1, or true or false", Some(other))),
        };
        if weight.is_some_and(|weight| (weight > 0.0) != trained) {
            let message = format!(
                "`{place}` is {}, but the message's own `{}` or `{WEIGHT}` says the opposite",
                u8::from(trained),
                TRAINED.join("`, `")
            );
            return Err(Fault::new(Reason::WrongType, message));
        }
        if trained && !speaks(message) {
            return Err(untrainable(&place));
        }
        weight.get_or_insert(f32::from(u8::from(trained)));
    }
    Ok(())
}

/// Refuses the mask of a record that has neither messages nor ids.
pub(crate) fn refuse(record: &Map, shape: &Shape) -> Result<(), Fault> {
    let field = shape.field_of(Part::LossMask, record);
    let is_empty = |text: &str| text.trim().is_empty();
    match record.get(field) {
        None | Some(Json::Null) => Ok(()),
        Some(Json::String(text)) if is_empty(text) => Ok(()),
        Some(_) => {
            let message = format!(
                "`{field}` has an entry for each message of a conversation, or for each id; this record is {shape}, \
                 which has neither: a `map` can take the field out"
            );
            Err(Fault::new(Reason::WrongType, message))
        }
    }
}
