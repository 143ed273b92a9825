//! The training flags of a message: `train`, true or false, and `weight`, a factor.

use std::sync::Arc;

use super::fault::{Fault, wrong_type};
use crate::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The flag that says whether a message is trained. The names are those of datasets for fine-tuning.
pub(super) const TRAIN: &str = "train";

/// The factor of a message's loss.
pub(super) const WEIGHT: &str = "weight";

/// The weight of each message by its own flags; `None` where no message has one.
pub(super) fn read(messages: &[Arc<Map>], field: &str) -> Result<Option<Vec<Option<f32>>>, Fault> {
    let flagged = |message: &Arc<Map>| message.contains_key(TRAIN) || message.contains_key(WEIGHT);
    if !messages.iter().any(flagged) {
        return Ok(None);
    }
    let weights = messages.iter().enumerate().map(|(at, message)| {
        let speaks = matches!(message.get("role"), Some(Json::String(role)) if is_assistant(role));
        own(message.get(TRAIN), message.get(WEIGHT), speaks, &format!("{field}[{at}]"))
    });
    weights.collect::<Result<_, _>>().map(Some)
}

/// The weight of a message by its own two flags, if it has one.
pub(super) fn own(
    train: Option<&Json>,
    weight: Option<&Json>,
    speaks: bool,
    place: &str,
) -> Result<Option<f32>, Fault> {
    let trained = match train {
        None | Some(Json::Null) => None,
        Some(Json::Bool(trained)) => Some(*trained),
        other => return Err(wrong_type(&format!("{place}.{TRAIN}"), "true or false", other)),
    };
    let weight = match weight {
        None | Some(Json::Null) => None,
        Some(value) => {
            Some(self::weight(value).map_err(|fault| fault.at(&format!("{place}.{WEIGHT}")))?)
        }
    };
    let weight = match (trained, weight) {
        (Some(false), _) => Some(0.0),
        (_, Some(weight)) => Some(weight),
        (Some(true), None) => Some(1.0),
        (None, None) => None,
    };
    if weight.is_some_and(|weight| weight > 0.0) && !speaks {
        let message = format!(
            "`{place}` asks to be trained, but only what the assistant says can be, message by message"
        );
        return Err(Fault::new(Reason::Unmaskable, message));
    }
    Ok(weight)
}

/// Whether a role is the trained one.
pub fn is_assistant(role: &str) -> bool {
    matches!(role, "assistant" | "model")
}

/// The reason that a value is no weight.
pub(super) struct NoWeight(String);

impl NoWeight {
    /// The fault of the field that holds the value.
    pub(super) fn at(self, place: &str) -> Fault {
        Fault::new(Reason::WrongType, format!("`{place}` {}", self.0))
    }
}

/// Whether a number is a weight.
pub(super) fn is_weight(number: f32) -> bool {
    number.is_finite() && number >= 0.0
}

/// A weight: a number from 0 on.
pub(super) fn weight(value: &Json) -> Result<f32, NoWeight> {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a weight needs no more than 32 bits"
    )]
    let weight = match value {
        Json::Int(number) => *number as f32,
        Json::Float(number) => *number as f32,
        other => {
            return Err(NoWeight(format!("must be a number, found {}", other.type_name())));
        }
    };
    if is_weight(weight) {
        Ok(weight)
    } else {
        Err(NoWeight(format!("is {weight}, which is no weight; it must be a number from 0 on")))
    }
}
