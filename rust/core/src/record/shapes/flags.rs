//! The training flags of a message: `train`, `loss` or `training`, true or false, and `weight`, a factor.

use std::sync::Arc;

use crate::config::inputs::fields;
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The names of the flag that says whether a message is trained: those of datasets for fine-tuning.
pub(crate) const TRAINED: [&str; 3] = ["train", "loss", "training"];

/// The factor of a message's loss.
pub(crate) const WEIGHT: &str = "weight";

/// The names of all flags.
pub(crate) const NAMES: [&str; 4] = [TRAINED[0], TRAINED[1], TRAINED[2], WEIGHT];

/// The weight of each message by its own flags; `None` where no message has one.
pub(crate) fn read(messages: &[Arc<Map>], field: &str) -> Result<Option<Vec<Option<f32>>>, Fault> {
    let flagged = |message: &Arc<Map>| NAMES.iter().any(|flag| message.contains_key(*flag));
    if !messages.iter().any(flagged) {
        return Ok(None);
    }
    let weights = messages.iter().enumerate().map(|(at, message)| {
        let trained = TRAINED.map(|flag| message.get(flag));
        own(trained, message.get(WEIGHT), speaks(message), &format!("{field}[{at}]"))
    });
    weights.collect::<Result<_, _>>().map(Some)
}

/// The weight of a message by its own flags, if it has one. `trained` are the values of [`TRAINED`].
pub(crate) fn own(
    trained: [Option<&Json>; 3],
    weight: Option<&Json>,
    speaks: bool,
    place: &str,
) -> Result<Option<f32>, Fault> {
    let mark = |flag: &str, value: Option<&Json>| match value {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Bool(trained)) => Ok(Some(*trained)),
        other => Err(wrong_type(&format!("{place}.{flag}"), "true or false", other)),
    };
    let mut marked: Option<(&str, bool)> = None;
    for (flag, value) in TRAINED.into_iter().zip(trained) {
        let Some(is_trained) = mark(flag, value)? else { continue };
        match marked {
            Some((other, before)) if before != is_trained => {
                let message = format!(
                    "`{place}.{other}` is {before}, `{place}.{flag}` is {is_trained}; they mean the same, so give one of them"
                );
                return Err(Fault::new(Reason::WrongType, message));
            }
            _ => marked = Some((flag, is_trained)),
        }
    }
    let trained = marked.map(|(_, is_trained)| is_trained);
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
        return Err(untrainable(place));
    }
    Ok(weight)
}

/// The fault of a message that asks to be trained and is not of the assistant.
pub(crate) fn untrainable(place: &str) -> Fault {
    let message = format!(
        "`{place}` asks to be trained, but only what the assistant says can be, message by message"
    );
    Fault::new(Reason::Unmaskable, message)
}

/// True if a message is of the trained role.
pub(crate) fn speaks(message: &Map) -> bool {
    matches!(message.get("role"), Some(Json::String(role)) if is_assistant(role))
}

/// True if a role is the trained one.
pub fn is_assistant(role: &str) -> bool {
    fields::ASSISTANT.contains(&role)
}

/// The reason that a value is no weight.
pub(crate) struct NoWeight(String);

impl NoWeight {
    /// The fault of the field that holds the value.
    pub(crate) fn at(self, place: &str) -> Fault {
        Fault::new(Reason::WrongType, format!("`{place}` {}", self.0))
    }
}

/// True if a number is a weight.
pub(crate) fn is_weight(number: f32) -> bool {
    number.is_finite() && number >= 0.0
}

/// A weight: a number from 0 on.
pub(crate) fn weight(value: &Json) -> Result<f32, NoWeight> {
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
