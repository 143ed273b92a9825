//! Python's equality, order and membership.

use std::cmp::Ordering;

use num_bigint::ToBigInt;

use crate::failure::{Failure, RenderResult};
use crate::language::methods::DictView;
use crate::language::operators::ComparisonOperator;
use crate::render_limits::{MAX_NESTING, Meter, PIECE};
use crate::values::key::Key;
use crate::values::operators::arithmetic::{big, float, is_number, type_error};
use crate::values::texts::search;
use crate::values::value::{Dict, Items, Value};

/// Compares two numbers; `None` if one is NaN.
fn compare_numbers(
    left: &Value<'_>,
    right: &Value<'_>,
    meter: &Meter<'_>,
) -> RenderResult<Option<Ordering>> {
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int()) {
        return Ok(Some(left.cmp(&right)));
    }
    if let (Some(left), Some(right)) = (big(left, meter)?, big(right, meter)?) {
        return Ok(Some(left.cmp(&right)));
    }
    match (left, right) {
        (&Value::Float(left), right) if !matches!(right, Value::Float(_)) => {
            order_of_float(left, right, meter)
        }
        (left, &Value::Float(right)) if !matches!(left, Value::Float(_)) => {
            Ok(order_of_float(right, left, meter)?.map(Ordering::reverse))
        }
        _ => Ok(float(left)?.partial_cmp(&float(right)?)),
    }
}

/// The order of a float and an integer, exact as in Python; `None` for NaN.
fn order_of_float(
    left: f64,
    right: &Value<'_>,
    meter: &Meter<'_>,
) -> RenderResult<Option<Ordering>> {
    let Some(whole) = left.to_bigint() else { return Ok(left.partial_cmp(&0.0)) };
    let Some(right) = big(right, meter)? else { return Ok(None) };
    Ok(match whole.cmp(&right) {
        Ordering::Equal => left.fract().partial_cmp(&0.0),
        other => Some(other),
    })
}

/// The depth of a comparison, and its meter.
#[derive(Clone, Copy)]
struct ComparisonDepth<'m> {
    depth: usize,
    meter: &'m Meter<'m>,
}

/// `left == right`
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>, meter: &Meter<'_>) -> RenderResult<bool> {
    equal_within(left, right, ComparisonDepth { depth: 0, meter })
}

fn equal_within(
    left: &Value<'_>,
    right: &Value<'_>,
    ComparisonDepth { depth, meter }: ComparisonDepth<'_>,
) -> RenderResult<bool> {
    if depth == MAX_NESTING {
        return Err(Failure::unsupported(format_args!(
            "comparing what nests deeper than {MAX_NESTING} levels"
        )));
    }
    equal_parts(left, right, ComparisonDepth { depth: depth + 1, meter })
}

/// `left == right` for texts.
fn equal_texts(left: &str, right: &str, meter: &Meter<'_>) -> RenderResult<bool> {
    if left.len() != right.len() {
        return Ok(false);
    }
    let pieces = left.as_bytes().chunks(PIECE).zip(right.as_bytes().chunks(PIECE));
    for (left, right) in pieces {
        meter.bytes(left.len())?;
        if left != right {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares two texts in Python's order.
pub(crate) fn order_texts(left: &str, right: &str, meter: &Meter<'_>) -> RenderResult<Ordering> {
    let pieces = left.as_bytes().chunks(PIECE).zip(right.as_bytes().chunks(PIECE));
    for (left, right) in pieces {
        meter.bytes(left.len().min(right.len()))?;
        if left != right {
            return Ok(left.cmp(right));
        }
    }
    Ok(left.len().cmp(&right.len()))
}

fn equal_parts(
    left: &Value<'_>,
    right: &Value<'_>,
    comparing: ComparisonDepth<'_>,
) -> RenderResult<bool> {
    match (left, right) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => Ok(true),
        (Value::Int(left), Value::Int(right)) => Ok(left == right),
        (Value::String(left) | Value::Safe(left), Value::String(right) | Value::Safe(right)) => {
            equal_texts(left, right, comparing.meter)
        }
        (Value::List(left), Value::List(right)) => {
            all_equal(left.len(), right.len(), left.iter().zip(right.iter()), comparing)
        }
        (Value::Tuple(left), Value::Tuple(right)) => all_equal(
            left.len(),
            right.len(),
            left.iter().cloned().zip(right.iter().cloned()),
            comparing,
        ),
        (Value::Dict(left), Value::Dict(right)) => equal_dicts(left, right, comparing),
        _ if is_number(left) && is_number(right) => {
            Ok(compare_numbers(left, right, comparing.meter)? == Some(Ordering::Equal))
        }
        _ if is_plain(left) || is_plain(right) => Ok(false),
        _ => Err(Failure::unsupported(format_args!(
            "comparing {} and {}",
            left.type_name(),
            right.type_name()
        ))),
    }
}

/// True if a value is equal only to values of its own kind.
fn is_plain(value: &Value<'_>) -> bool {
    is_number(value)
        || matches!(
            value,
            Value::Undefined
                | Value::None
                | Value::String(_)
                | Value::Safe(_)
                | Value::List(_)
                | Value::Tuple(_)
                | Value::Dict(_)
        )
}

fn all_equal<'a, 'b>(
    left: usize,
    right: usize,
    mut items: impl Iterator<Item = (Value<'a>, Value<'b>)>,
    comparing: ComparisonDepth<'_>,
) -> RenderResult<bool> {
    if left != right {
        return Ok(false);
    }
    for (left, right) in &mut items {
        comparing.meter.items(2)?;
        if !identical_or_equal(&left, &right, comparing)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if two items of containers are equal. Python takes an object for equal to itself, even NaN. Two NaNs
/// are refused, because it is not known here whether they are one object.
fn identical_or_equal(
    left: &Value<'_>,
    right: &Value<'_>,
    comparing: ComparisonDepth<'_>,
) -> RenderResult<bool> {
    match (left, right) {
        (Value::Float(left), Value::Float(right)) if left.is_nan() && right.is_nan() => {
            Err(Failure::unsupported("comparing lists or dicts that hold NaN"))
        }
        _ => equal_within(left, right, comparing),
    }
}

fn equal_dicts(
    left: &Dict<'_>,
    right: &Dict<'_>,
    comparing: ComparisonDepth<'_>,
) -> RenderResult<bool> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, value) in left.iter() {
        comparing.meter.items(2)?;
        comparing.meter.characters(key.as_text().map_or(0, |key| key.len()))?;
        match right.find(&key) {
            Some(other) if identical_or_equal(&value, &other, comparing)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Compares two values in Python's order. Fails for values that Python does not order.
pub(crate) fn order(
    operator: &str,
    left: &Value<'_>,
    right: &Value<'_>,
    meter: &Meter<'_>,
) -> RenderResult<Option<Ordering>> {
    match (left, right) {
        (Value::String(left) | Value::Safe(left), Value::String(right) | Value::Safe(right)) => {
            order_texts(left, right, meter).map(Some)
        }
        (Value::List(_), Value::List(_)) | (Value::Tuple(_), Value::Tuple(_)) => {
            Err(Failure::unsupported("ordering lists"))
        }
        (Value::View(..), Value::View(..)) => Err(Failure::unsupported("ordering views of dicts")),
        _ if is_number(left) && is_number(right) => compare_numbers(left, right, meter),
        _ => type_error(operator, left, right),
    }
}

/// `left comparison right`
pub(crate) fn compare(
    comparison: ComparisonOperator,
    left: &Value<'_>,
    right: &Value<'_>,
    meter: &Meter<'_>,
) -> RenderResult<bool> {
    let ordered = |operator: &str| order(operator, left, right, meter);
    Ok(match comparison {
        ComparisonOperator::Equal => equal(left, right, meter)?,
        ComparisonOperator::NotEqual => !equal(left, right, meter)?,
        ComparisonOperator::Less => ordered("<")? == Some(Ordering::Less),
        ComparisonOperator::LessOrEqual => {
            matches!(ordered("<=")?, Some(Ordering::Less | Ordering::Equal))
        }
        ComparisonOperator::Greater => ordered(">")? == Some(Ordering::Greater),
        ComparisonOperator::GreaterOrEqual => {
            matches!(ordered(">=")?, Some(Ordering::Greater | Ordering::Equal))
        }
        ComparisonOperator::In => contains(right, left, meter)?,
        ComparisonOperator::NotIn => !contains(right, left, meter)?,
    })
}

/// `item in container`
pub(crate) fn contains(
    container: &Value<'_>,
    item: &Value<'_>,
    meter: &Meter<'_>,
) -> RenderResult<bool> {
    match container {
        Value::String(text) | Value::Safe(text) => match item.as_text() {
            Some(part) => search::contains(text, part, meter),
            None => Err(Failure::error(format!(
                "`in` looks for a string in a string, not for {}",
                item.type_name()
            ))),
        },
        Value::Dict(dict) | Value::View(DictView::Keys, dict) => match item {
            Value::String(key) | Value::Safe(key) => {
                meter.bytes(key.len())?;
                Ok(dict.get(key).is_some())
            }
            Value::List(_) | Value::Dict(_) => {
                Err(Failure::error(format!("a {} is no key", item.type_name())))
            }
            Value::Tuple(_) => Err(Failure::unsupported("a tuple as a key")),
            other => Ok(Key::sought(other)?.is_some_and(|key| dict.find(&key).is_some())),
        },
        Value::Undefined => Ok(false),
        Value::List(_) | Value::Tuple(_) | Value::Range(_) => {
            let Some(items) = Items::of(container) else { return Ok(false) };
            while let Some(other) = items.next(meter)? {
                if identical_or_equal(&other, item, ComparisonDepth { depth: 0, meter })? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::View(..) | Value::Generator(_) => {
            Err(Failure::unsupported(format_args!("`in` a {}", container.type_name())))
        }
        other => Err(Failure::error(format!("`in` does not work on {}", other.type_name()))),
    }
}
