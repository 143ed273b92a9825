//! Records that are tokenized already: ids, and what tells which of them are trained.

use super::shape::Shape;
use super::value::{Map, Value};
use super::{Fault, flags, json, wrong_type};
use crate::config::Part;
use crate::ledger::Reason;

/// Where the padding is marked with zeros, if nothing else is said.
pub(super) const ATTENTION_MASK: &str = "attention_mask";

/// Where trained tokens are marked with ones, if nothing else is said.
pub(super) const MASKS: [&str; 2] = ["assistant_masks", "completion_mask"];

/// The label of a token that is not trained.
const IGNORED: i64 = -100;

/// The ids of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokens {
    /// The ids, without padding.
    pub ids: Vec<u32>,
    /// What the loss of each id is multiplied by, 0 where it is not trained, where the record says so.
    pub weights: Option<Vec<f32>>,
}

pub(super) fn read(record: &Map, shape: &Shape) -> Result<Tokens, Fault> {
    let field = shape.field(Part::InputIds);
    let ids = numbers(record, field)?.ok_or_else(|| wrong_type(field, "a list of ids", None))?;
    let marks = |part: Part| {
        let name = shape.field_of(part, record);
        let marks = numbers(record, name)?.map(|marks| (name, marks));
        match &marks {
            Some((name, marks)) if marks.len() != ids.len() => Err(Fault::new(
                Reason::WrongType,
                format!("`{name}` has {} entries for {} tokens", marks.len(), ids.len()),
            )),
            _ => Ok(marks),
        }
    };
    let trained = match (marks(Part::Labels)?, marks(Part::AssistantMasks)?) {
        (Some((name, labels)), _) => {
            let differs = |(label, id): (&i64, &i64)| *label != IGNORED && label != id;
            if let Some(at) = labels.iter().zip(&ids).position(differs) {
                let message = format!(
                    "`{name}` has {} at position {at} where the token is {}; it must be the token or {IGNORED}, not shifted",
                    labels[at], ids[at],
                );
                return Err(Fault::new(Reason::WrongType, message));
            }
            Some(labels.iter().map(|label| one_if(*label != IGNORED)).collect::<Vec<_>>())
        }
        (None, Some((_, mask))) => Some(mask.iter().map(|mark| one_if(*mark != 0)).collect()),
        (None, None) => None,
    };
    let weights = match (trained, weights(record, shape, ids.len())?) {
        (Some(trained), Some(weights)) => {
            Some(trained.iter().zip(weights).map(|(trained, weight)| trained * weight).collect())
        }
        (trained, weights) => trained.or(weights),
    };
    let real = match marks(Part::AttentionMask)? {
        Some((name, mask)) => {
            let start = mask.iter().position(|mark| *mark != 0).unwrap_or(mask.len());
            let end = mask.iter().rposition(|mark| *mark != 0).map_or(start, |last| last + 1);
            if mask[start..end].contains(&0) {
                let message = format!(
                    "`{name}` leaves out tokens between others; only padding at the ends can be left out"
                );
                return Err(Fault::new(Reason::WrongType, message));
            }
            start..end
        }
        None => 0..ids.len(),
    };
    let id = |id: &i64| {
        u32::try_from(*id).ok().filter(|id| i32::try_from(*id).is_ok()).ok_or_else(|| {
            Fault::new(Reason::WrongType, format!("`{field}` holds {id}, which is no token id"))
        })
    };
    if real.is_empty() {
        return Err(Fault::new(Reason::Empty, format!("`{field}` holds no token")));
    }
    Ok(Tokens {
        ids: ids[real.clone()].iter().map(id).collect::<Result<_, _>>()?,
        weights: weights.map(|weights: Vec<f32>| weights[real].to_vec()),
    })
}

fn one_if(trained: bool) -> f32 {
    f32::from(u8::from(trained))
}

/// The weights of `tokens` ids, if the record has any.
fn weights(record: &Map, shape: &Shape, tokens: usize) -> Result<Option<Vec<f32>>, Fault> {
    let field = shape.field(Part::LossWeights);
    let value = json::unfold(record, field)?;
    let list = match &value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::List(list)) => list,
        other => return Err(wrong_type(field, "a list of numbers", other.as_ref())),
    };
    if list.len() != tokens {
        let message = format!("`{field}` has {} entries for {tokens} tokens", list.len());
        return Err(Fault::new(Reason::WrongType, message));
    }
    let weight =
        |(at, value)| flags::weight(value).map_err(|fault| fault.at(&format!("{field}[{at}]")));
    list.iter().enumerate().map(weight).collect::<Result<_, _>>().map(Some)
}

/// A list of whole numbers, or JSON text of one; none where null or absent.
fn numbers(record: &Map, field: &str) -> Result<Option<Vec<i64>>, Fault> {
    const WANTED: &str = "a list of whole numbers";
    let value = json::unfold(record, field)?;
    let list = match &value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::List(list)) => list,
        other => return Err(wrong_type(field, WANTED, other.as_ref())),
    };
    let numbers = list.iter().map(|item| match item {
        Value::Int(number) => Ok(*number),
        Value::Bool(mark) => Ok(i64::from(*mark)),
        other => Err(wrong_type(field, WANTED, Some(other))),
    });
    numbers.collect::<Result<_, _>>().map(Some)
}
