//! Python's arithmetic, and Jinja's `~`.

use num_bigint::{BigInt, Sign};

use crate::failure::{Failure, RenderResult};
use crate::language::operators::BinaryOperator;
use crate::render_limits::{Meter, PIECE};
use crate::values::make::ItemsBuilder;
use crate::values::printing::formatting::percent;
use crate::values::printing::markup;
use crate::values::value::Value;

/// Most bytes of a string made by `*`.
const MAX_REPEATED: usize = 1 << 20;

/// Most bits of a computed integer: more than Python prints.
const MAX_BITS: u64 = 1 << 14;

/// The largest integer up to which all are floats too.
const EXACT: u64 = 1 << 53;

/// The error of an operator that is not defined for two values.
pub(crate) fn type_error<T>(
    operator: &str,
    left: &Value<'_>,
    right: &Value<'_>,
) -> RenderResult<T> {
    let (left, right) = (left.type_name(), right.type_name());
    Err(Failure::error(format!("`{operator}` does not work between {left} and {right}")))
}

/// An integer of any size.
pub(crate) fn big(value: &Value<'_>, meter: &Meter<'_>) -> RenderResult<Option<BigInt>> {
    Ok(match value {
        Value::Big(value) => {
            meter.characters(usize::try_from(value.bits() / 8).unwrap_or(usize::MAX))?;
            Some((**value).clone())
        }
        other => other.as_int().map(BigInt::from),
    })
}

/// True if a value is a number in Python, which a boolean is too.
pub(crate) fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_))
}

/// The value as a float, where that is exact.
pub(crate) fn float(value: &Value<'_>) -> RenderResult<f64> {
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

/// An integer of any size as a value.
fn integer<'r>(number: BigInt, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    if number.bits() > MAX_BITS {
        return Err(Failure::unsupported(format_args!("an integer of more than {MAX_BITS} bits")));
    }
    let bytes = usize::try_from(number.bits() / 8).unwrap_or(usize::MAX);
    meter.bytes(bytes)?;
    meter.hold(bytes)?;
    Ok(Value::big(number, meter.held(bytes)))
}

/// Fails for a product that would have more bits than an integer may have.
fn check_product(left: &BigInt, right: &BigInt) -> RenderResult<()> {
    if left.bits() + right.bits() > MAX_BITS + 1 {
        return Err(Failure::unsupported(format_args!("an integer of more than {MAX_BITS} bits")));
    }
    Ok(())
}

/// `left operator right`
pub(crate) fn binary<'r>(
    operator: BinaryOperator,
    left: &Value<'r>,
    right: &Value<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    match operator {
        BinaryOperator::Add => add(left, right, meter),
        BinaryOperator::Subtract => {
            let exact = |left: BigInt, right: BigInt| Ok(left - right);
            arithmetic("-", left, right, meter, i64::checked_sub, exact, |a, b| a - b)
        }
        BinaryOperator::Multiply => multiply(left, right, meter),
        BinaryOperator::Divide => divide(left, right),
        BinaryOperator::FloorDivide | BinaryOperator::Modulo => floor(operator, left, right, meter),
        BinaryOperator::Power => power(left, right, meter),
    }
}

fn add<'r>(left: &Value<'r>, right: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => {
            let mut sum = String::new();
            if left.len() + right.len() <= PIECE {
                sum.reserve_exact(left.len() + right.len());
            }
            meter.write(&mut sum, left)?;
            meter.write(&mut sum, right)?;
            meter.string(sum)
        }
        (Value::Safe(_), _) | (_, Value::Safe(_)) => match markup::add(left, right, meter)? {
            Some(sum) => Ok(sum),
            None => type_error("+", left, right),
        },
        (Value::List(left), Value::List(right)) => {
            let mut sum = ItemsBuilder::of(left.len() + right.len(), meter)?;
            left.iter().chain(right.iter()).try_for_each(|item| sum.push(item))?;
            Ok(sum.into_list())
        }
        (Value::Tuple(left), Value::Tuple(right)) => {
            let mut sum = ItemsBuilder::of(left.len() + right.len(), meter)?;
            left.iter().chain(right.iter()).try_for_each(|item| sum.push(item.clone()))?;
            Ok(sum.into_tuple())
        }
        _ => {
            let exact = |left: BigInt, right: BigInt| Ok(left + right);
            arithmetic("+", left, right, meter, i64::checked_add, exact, |a, b| a + b)
        }
    }
}

fn arithmetic<'r>(
    operator: &str,
    left: &Value<'r>,
    right: &Value<'r>,
    meter: &Meter<'_>,
    small: impl Fn(i64, i64) -> Option<i64>,
    large: impl Fn(BigInt, BigInt) -> RenderResult<BigInt>,
    floats: impl Fn(f64, f64) -> f64,
) -> RenderResult<Value<'r>> {
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int())
        && let Some(result) = small(left, right)
    {
        return Ok(Value::Int(result));
    }
    if let (Some(left), Some(right)) = (big(left, meter)?, big(right, meter)?) {
        return integer(large(left, right)?, meter);
    }
    if is_number(left) && is_number(right) {
        return Ok(Value::Float(floats(float(left)?, float(right)?)));
    }
    type_error(operator, left, right)
}

fn multiply<'r>(left: &Value<'r>, right: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    let repeated = match (left, right) {
        (Value::String(text), times) | (times, Value::String(text)) => {
            times.as_int().map(|times| (text, times))
        }
        _ => None,
    };
    if let Some((text, times)) = repeated {
        let times = usize::try_from(times).unwrap_or(0);
        let bytes = text.len().saturating_mul(times);
        if bytes > MAX_REPEATED {
            return Err(Failure::unsupported("a repeated string of more than a MiB"));
        }
        meter.bytes(bytes)?;
        meter.hold(bytes)?;
        return meter.string(text.repeat(times));
    }
    let sequence =
        |value: &Value<'_>| matches!(value, Value::List(_) | Value::Tuple(_) | Value::Safe(_));
    if sequence(left) || sequence(right) {
        return Err(Failure::unsupported("repeating a list with `*`"));
    }
    let exact = |left: BigInt, right: BigInt| check_product(&left, &right).map(|()| left * right);
    arithmetic("*", left, right, meter, i64::checked_mul, exact, |a, b| a * b)
}

fn divide<'r>(left: &Value<'r>, right: &Value<'r>) -> RenderResult<Value<'r>> {
    if !is_number(left) || !is_number(right) {
        return type_error("/", left, right);
    }
    let (left, right) = (float(left)?, float(right)?);
    if right == 0.0 {
        return Err(Failure::error("division by zero"));
    }
    Ok(Value::Float(left / right))
}

fn floor<'r>(
    operator: BinaryOperator,
    left: &Value<'r>,
    right: &Value<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let sign = if operator == BinaryOperator::Modulo { "%" } else { "//" };
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int())
        && let (Some(quotient), Some(rest)) = (left.checked_div(right), left.checked_rem(right))
    {
        let adjust = rest != 0 && (rest < 0) != (right < 0);
        return Ok(Value::Int(match operator {
            BinaryOperator::Modulo if adjust => rest + right,
            BinaryOperator::Modulo => rest,
            _ => quotient - i64::from(adjust),
        }));
    }
    if let (Some(left), Some(right)) = (big(left, meter)?, big(right, meter)?) {
        if right.sign() == Sign::NoSign {
            return Err(Failure::error("division by zero"));
        }
        let (quotient, rest) = (&left / &right, &left % &right);
        let adjust = rest.sign() != Sign::NoSign && rest.sign() != right.sign();
        let result = match operator {
            BinaryOperator::Modulo if adjust => rest + right,
            BinaryOperator::Modulo => rest,
            _ => quotient - u32::from(adjust),
        };
        return integer(result, meter);
    }
    if let (Value::String(text), BinaryOperator::Modulo) = (left, operator) {
        return meter.string(percent(text, right, meter)?);
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

fn power<'r>(left: &Value<'r>, right: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    match (big(left, meter)?, right.as_int().map(u32::try_from)) {
        (Some(base), Some(Ok(exponent))) => {
            let bits = base.bits().saturating_mul(exponent.into());
            if base.bits() > 1 && bits > MAX_BITS + base.bits() {
                return Err(Failure::unsupported("`**` with such numbers"));
            }
            integer(base.pow(exponent), meter)
        }
        _ if is_number(left) && is_number(right) => {
            Err(Failure::unsupported("`**` with such numbers"))
        }
        _ => type_error("**", left, right),
    }
}

/// `-value`
pub(crate) fn negative<'r>(value: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    match value {
        Value::Float(value) => Ok(Value::Float(-value)),
        other => match big(other, meter)? {
            Some(number) => integer(-number, meter),
            None => Err(Failure::error(format!("`-` does not work on {}", other.type_name()))),
        },
    }
}

/// `+value`
pub(crate) fn positive<'r>(value: &Value<'r>) -> RenderResult<Value<'r>> {
    match value {
        Value::Float(_) | Value::Int(_) | Value::Big(_) => Ok(value.clone()),
        Value::Bool(value) => Ok(Value::Int(i64::from(*value))),
        other => Err(Failure::error(format!("`+` does not work on {}", other.type_name()))),
    }
}

/// Joins texts as `~` does.
pub(crate) fn concat<'r>(parts: &[Value<'r>], meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    let mut out = String::new();
    for part in parts {
        crate::values::printing::print::write_str(&mut out, part, meter)?;
    }
    meter.string(out)
}
