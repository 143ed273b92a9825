//! What operators do: Python's arithmetic, equality, order and membership.

use std::cmp::Ordering;

use memchr::memmem;
use num_bigint::BigInt;

use super::ast::{Binary, Comparison};
use super::failure::{Failure, Outcome};
use super::items::Items;
use super::limits::Comparing;
use super::value::{Dict, Text, Value};

/// How long a string made by `*` may be, in bytes.
const MAX_REPEATED: usize = 1 << 20;

/// The largest integer up to which all are floats too.
const EXACT: u64 = 1 << 53;

fn type_error<T>(operator: &str, left: &Value<'_>, right: &Value<'_>) -> Outcome<T> {
    let (left, right) = (left.type_name(), right.type_name());
    Err(Failure::error(format!("`{operator}` does not work between {left} and {right}")))
}

fn big(value: &Value<'_>) -> Option<BigInt> {
    match value {
        Value::Big(value) => Some((**value).clone()),
        other => other.as_int().map(BigInt::from),
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_))
}

/// The value as a float, where that is exact.
fn float(value: &Value<'_>) -> Outcome<f64> {
    match value {
        Value::Float(value) => Ok(*value),
        other => match other.as_int() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "exact up to 2^53, which the guard checks"
            )]
            Some(value) if value.unsigned_abs() <= EXACT => Ok(value as f64),
            _ => Err(Failure::unsupported("mixing floats with integers beyond 2^53")),
        },
    }
}

/// `left operator right`
pub(super) fn binary<'r>(
    operator: Binary,
    left: &Value<'r>,
    right: &Value<'r>,
) -> Outcome<Value<'r>> {
    match operator {
        Binary::Add => add(left, right),
        Binary::Subtract => {
            arithmetic("-", left, right, i64::checked_sub, |a, b| a - b, |a, b| a - b)
        }
        Binary::Multiply => multiply(left, right),
        Binary::Divide => divide(left, right),
        Binary::FloorDivide | Binary::Modulo => floor(operator, left, right),
        Binary::Power => power(left, right),
    }
}

fn add<'r>(left: &Value<'r>, right: &Value<'r>) -> Outcome<Value<'r>> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => {
            let mut sum = String::with_capacity(left.len() + right.len());
            sum.push_str(left);
            sum.push_str(right);
            Ok(Value::string(sum))
        }
        (Value::Safe(_), _) | (_, Value::Safe(_)) => {
            Err(Failure::unsupported("`+` after the filter `safe`"))
        }
        (Value::List(left), Value::List(right)) => {
            Ok(Value::list(left.iter().chain(right.iter()).collect()))
        }
        (Value::Tuple(left), Value::Tuple(right)) => {
            Ok(Value::tuple(left.iter().chain(right.iter()).cloned().collect()))
        }
        _ => arithmetic("+", left, right, i64::checked_add, |a, b| a + b, |a, b| a + b),
    }
}

fn arithmetic<'r>(
    operator: &str,
    left: &Value<'r>,
    right: &Value<'r>,
    small: impl Fn(i64, i64) -> Option<i64>,
    large: impl Fn(BigInt, BigInt) -> BigInt,
    floats: impl Fn(f64, f64) -> f64,
) -> Outcome<Value<'r>> {
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int())
        && let Some(result) = small(left, right)
    {
        return Ok(Value::Int(result));
    }
    if let (Some(left), Some(right)) = (big(left), big(right)) {
        return Ok(Value::big(large(left, right)));
    }
    if is_number(left) && is_number(right) {
        return Ok(Value::Float(floats(float(left)?, float(right)?)));
    }
    type_error(operator, left, right)
}

fn multiply<'r>(left: &Value<'r>, right: &Value<'r>) -> Outcome<Value<'r>> {
    let repeated = match (left, right) {
        (Value::String(text), times) | (times, Value::String(text)) => {
            times.as_int().map(|times| (text, times))
        }
        _ => None,
    };
    if let Some((text, times)) = repeated {
        let times = usize::try_from(times).unwrap_or(0);
        if text.len().saturating_mul(times) > MAX_REPEATED {
            return Err(Failure::unsupported("a repeated string of more than a MiB"));
        }
        return Ok(Value::string(text.repeat(times)));
    }
    let sequence =
        |value: &Value<'_>| matches!(value, Value::List(_) | Value::Tuple(_) | Value::Safe(_));
    if sequence(left) || sequence(right) {
        return Err(Failure::unsupported("repeating a list with `*`"));
    }
    arithmetic("*", left, right, i64::checked_mul, |a, b| a * b, |a, b| a * b)
}

fn divide<'r>(left: &Value<'r>, right: &Value<'r>) -> Outcome<Value<'r>> {
    if !is_number(left) || !is_number(right) {
        return type_error("/", left, right);
    }
    let (left, right) = (float(left)?, float(right)?);
    if right == 0.0 {
        return Err(Failure::error("division by zero"));
    }
    Ok(Value::Float(left / right))
}

fn floor<'r>(operator: Binary, left: &Value<'r>, right: &Value<'r>) -> Outcome<Value<'r>> {
    let sign = if operator == Binary::Modulo { "%" } else { "//" };
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int()) {
        if right == 0 {
            return Err(Failure::error("division by zero"));
        }
        let (Some(quotient), Some(rest)) = (left.checked_div(right), left.checked_rem(right))
        else {
            return Err(Failure::unsupported(format_args!("`{sign}` of integers beyond 64 bits")));
        };
        let adjust = rest != 0 && (rest < 0) != (right < 0);
        return Ok(Value::Int(match operator {
            Binary::Modulo if adjust => rest + right,
            Binary::Modulo => rest,
            _ => quotient - i64::from(adjust),
        }));
    }
    if is_number(left) && is_number(right) || left.as_text().is_some() && sign == "%" {
        return Err(Failure::unsupported(format_args!(
            "`{sign}` between {} and {}",
            left.type_name(),
            right.type_name()
        )));
    }
    type_error(sign, left, right)
}

fn power<'r>(left: &Value<'r>, right: &Value<'r>) -> Outcome<Value<'r>> {
    match (left.as_int(), right.as_int()) {
        (Some(base), Some(exponent)) => u32::try_from(exponent)
            .ok()
            .and_then(|exponent| base.checked_pow(exponent))
            .map(Value::Int)
            .ok_or_else(|| Failure::unsupported("`**` with such numbers")),
        _ if is_number(left) && is_number(right) => {
            Err(Failure::unsupported("`**` with such numbers"))
        }
        _ => type_error("**", left, right),
    }
}

/// `-value`
pub(super) fn negative<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
    match value {
        Value::Float(value) => Ok(Value::Float(-value)),
        other => big(other)
            .map(|value| Value::big(-value))
            .ok_or_else(|| Failure::error(format!("`-` does not work on {}", other.type_name()))),
    }
}

/// `+value`
pub(super) fn positive<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
    match value {
        Value::Float(value) => Ok(Value::Float(*value)),
        other => big(other)
            .map(Value::big)
            .ok_or_else(|| Failure::error(format!("`+` does not work on {}", other.type_name()))),
    }
}

/// Compares two numbers; nothing if one is not a number.
fn compare_numbers(left: &Value<'_>, right: &Value<'_>) -> Outcome<Option<Ordering>> {
    if let (Some(left), Some(right)) = (big(left), big(right)) {
        return Ok(Some(left.cmp(&right)));
    }
    Ok(float(left)?.partial_cmp(&float(right)?))
}

/// `left == right`
pub(super) fn equal(left: &Value<'_>, right: &Value<'_>) -> Outcome<bool> {
    equal_within(left, right, &mut Comparing::default())
}

fn equal_within(left: &Value<'_>, right: &Value<'_>, comparing: &mut Comparing) -> Outcome<bool> {
    comparing.descend()?;
    let equal = equal_parts(left, right, comparing);
    comparing.ascend();
    equal
}

fn equal_parts(left: &Value<'_>, right: &Value<'_>, comparing: &mut Comparing) -> Outcome<bool> {
    match (left, right) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => Ok(true),
        (Value::Int(left), Value::Int(right)) => Ok(left == right),
        (Value::String(left) | Value::Safe(left), Value::String(right) | Value::Safe(right)) => {
            Ok(**left == **right)
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
            Ok(compare_numbers(left, right)? == Some(Ordering::Equal))
        }
        _ if is_plain(left) || is_plain(right) => Ok(false),
        _ => Err(Failure::unsupported(format_args!(
            "comparing {} and {}",
            left.type_name(),
            right.type_name()
        ))),
    }
}

/// Whether a value is equal only to values of its own kind.
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
    comparing: &mut Comparing,
) -> Outcome<bool> {
    if left != right {
        return Ok(false);
    }
    items.try_fold(true, |all, (left, right)| {
        Ok(all && identical_or_equal(&left, &right, comparing)?)
    })
}

/// Python's containers take an object for equal to itself, even NaN; which NaNs are one object is not known here.
fn identical_or_equal(
    left: &Value<'_>,
    right: &Value<'_>,
    comparing: &mut Comparing,
) -> Outcome<bool> {
    match (left, right) {
        (Value::Float(left), Value::Float(right)) if left.is_nan() && right.is_nan() => {
            Err(Failure::unsupported("comparing lists or dicts that hold NaN"))
        }
        _ => equal_within(left, right, comparing),
    }
}

fn equal_dicts(left: &Dict<'_>, right: &Dict<'_>, comparing: &mut Comparing) -> Outcome<bool> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, value) in left.iter() {
        match right.get(&key) {
            Some(other) if identical_or_equal(&value, &other, comparing)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// How Python orders two values, or an error where it does not.
pub(super) fn order(
    operator: &str,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Outcome<Option<Ordering>> {
    match (left, right) {
        (Value::String(left) | Value::Safe(left), Value::String(right) | Value::Safe(right)) => {
            Ok(Some(left.cmp(right)))
        }
        (Value::List(_), Value::List(_)) | (Value::Tuple(_), Value::Tuple(_)) => {
            Err(Failure::unsupported("ordering lists"))
        }
        (Value::View(..), Value::View(..)) => Err(Failure::unsupported("ordering views of dicts")),
        _ if is_number(left) && is_number(right) => compare_numbers(left, right),
        _ => type_error(operator, left, right),
    }
}

/// `left comparison right`
pub(super) fn compare(
    comparison: Comparison,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Outcome<bool> {
    Ok(match comparison {
        Comparison::Equal => equal(left, right)?,
        Comparison::NotEqual => !equal(left, right)?,
        Comparison::Less => order("<", left, right)? == Some(Ordering::Less),
        Comparison::LessOrEqual => {
            matches!(order("<=", left, right)?, Some(Ordering::Less | Ordering::Equal))
        }
        Comparison::Greater => order(">", left, right)? == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => {
            matches!(order(">=", left, right)?, Some(Ordering::Greater | Ordering::Equal))
        }
        Comparison::In => contains(right, left)?,
        Comparison::NotIn => !contains(right, left)?,
    })
}

/// `item in container`
pub(super) fn contains(container: &Value<'_>, item: &Value<'_>) -> Outcome<bool> {
    match container {
        Value::String(text) | Value::Safe(text) => match item.as_text() {
            Some(part) => Ok(memmem::find(text.as_bytes(), part.as_bytes()).is_some()),
            None => Err(Failure::error(format!(
                "`in` looks for a string in a string, not for {}",
                item.type_name()
            ))),
        },
        Value::Dict(dict) | Value::View(super::value::View::Keys, dict) => match item {
            Value::String(key) | Value::Safe(key) => Ok(dict.get(key).is_some()),
            Value::List(_) | Value::Dict(_) => {
                Err(Failure::error(format!("a {} is no key", item.type_name())))
            }
            Value::Tuple(_) => Err(Failure::unsupported("a tuple as a key")),
            _ => Ok(false),
        },
        Value::Undefined => Ok(false),
        Value::List(_) | Value::Tuple(_) | Value::Range(_) => {
            let Some(items) = Items::of(container) else { return Ok(false) };
            let mut comparing = Comparing::default();
            for other in items.iter() {
                if identical_or_equal(&other, item, &mut comparing)? {
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

/// Joins texts as `~` does.
pub(super) fn concat<'r>(parts: &[Value<'r>]) -> Outcome<Value<'r>> {
    let mut out = String::new();
    for part in parts {
        super::print::write_str(&mut out, part)?;
    }
    Ok(Value::String(Text::from(out)))
}
