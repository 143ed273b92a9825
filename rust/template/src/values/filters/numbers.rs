//! Filters of numbers.

use crate::failure::{Failure, RenderResult};
use crate::render_limits::Meter;
use crate::values::arguments::CallArguments;
use crate::values::operators::arithmetic;
use crate::values::operators::arithmetic::negative;
use crate::values::value::Value;

/// Bytes of the longest text that is read as a number.
const LONGEST_NUMBER: usize = 64;

/// The largest float whose integer is exact in 64 bits.
const EXACT: f64 = 9e15;

/// A value as an integer; `default` for one that is no number.
pub(crate) fn int<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [default, base] = arguments.bind(["default", "base"])?;
    if base.is_some_and(|base| base.as_int() != Some(10)) {
        return Err(Failure::unsupported("`int` with a base"));
    }
    let default = default.unwrap_or(Value::Int(0));
    let whole = |number: f64| {
        if number.abs() >= EXACT || number.is_nan() {
            return Err(Failure::unsupported("`int` of such a float"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 2^53, as the line above says")]
        let whole = number.trunc() as i64;
        Ok(Value::Int(whole))
    };
    match value {
        Value::Int(_) | Value::Big(_) => Ok(value.clone()),
        Value::Bool(value) => Ok(Value::Int(i64::from(*value))),
        Value::None | Value::List(_) | Value::Dict(_) | Value::Tuple(_) => Ok(default),
        Value::Float(number) => whole(*number),
        Value::String(text) => match read(text, meter)? {
            ParsedNumber::Int(number) => Ok(Value::Int(number)),
            ParsedNumber::Float(number) => whole(number),
            ParsedNumber::None => Ok(default),
        },
        Value::Undefined => Err(Failure::error("`int` of an undefined value")),
        other => Err(Failure::unsupported(format_args!("`int` of such a {}", other.type_name()))),
    }
}

/// A value as a float; `default` for one that is no number.
pub(crate) fn float<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [default] = arguments.bind(["default"])?;
    let default = default.unwrap_or(Value::Float(0.0));
    match value {
        Value::Float(_) | Value::Int(_) | Value::Bool(_) => {
            arithmetic::float(value).map(Value::Float)
        }
        Value::None | Value::List(_) | Value::Dict(_) | Value::Tuple(_) => Ok(default),
        Value::String(text) => match read(text, meter)? {
            ParsedNumber::Int(number) => arithmetic::float(&Value::Int(number)).map(Value::Float),
            ParsedNumber::Float(number) => Ok(Value::Float(number)),
            ParsedNumber::None => Ok(default),
        },
        Value::Undefined => Err(Failure::error("`float` of an undefined value")),
        other => Err(Failure::unsupported(format_args!("`float` of such a {}", other.type_name()))),
    }
}

/// The number that a text is.
enum ParsedNumber {
    Int(i64),
    Float(f64),
    /// Python takes it for no number.
    None,
}

/// Reads a text as Python's `int` or else `float` does.
fn read(text: &str, meter: &Meter<'_>) -> RenderResult<ParsedNumber> {
    let refuse = || Err(Failure::unsupported("a number in such a text"));
    meter.characters(text.len())?;
    if !text.is_ascii() {
        return refuse();
    }
    let text = text.trim_matches(|c: char| matches!(c, ' ' | '\t'..='\r' | '\x1c'..='\x1f'));
    // The letters of `nan`, `inf` and `infinity`, an exponent, and the underscores between digits.
    let of_numbers = |c: char| c.is_ascii_digit() || "+-._eEnNaAiIfFtTyY".contains(c);
    if text.is_empty() || !text.chars().all(of_numbers) {
        return Ok(ParsedNumber::None);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() > LONGEST_NUMBER {
        return refuse();
    }
    if plain(digits) && !digits.is_empty() {
        return text.parse().map(ParsedNumber::Int).or_else(|_| refuse());
    }
    match digits.split_once('.') {
        Some((whole, part)) if plain(whole) && plain(part) && digits.len() > 1 => {
            text.parse().map(ParsedNumber::Float).or_else(|_| refuse())
        }
        _ => refuse(),
    }
}

/// `abs(value)`
pub(crate) fn abs<'r>(value: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    match value {
        Value::Int(number) if *number < 0 => negative(value, meter),
        Value::Big(number) if number.sign() == num_bigint::Sign::Minus => negative(value, meter),
        Value::Int(_) | Value::Big(_) => Ok(value.clone()),
        Value::Bool(value) => Ok(Value::Int(i64::from(*value))),
        Value::Float(number) => Ok(Value::Float(number.abs())),
        other => Err(Failure::error(format!("`abs` does not work on {}", other.type_name()))),
    }
}

/// A number rounded to a whole one.
pub(crate) fn round<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
) -> RenderResult<Value<'r>> {
    let [precision, method] = arguments.bind(["precision", "method"])?;
    if precision.is_some_and(|precision| precision.as_int() != Some(0)) {
        return Err(Failure::unsupported("`round` to places after the point"));
    }
    let method = match &method {
        None => "common",
        Some(Value::String(method)) => method,
        Some(_) => return Err(Failure::error("`round` takes the name of a method")),
    };
    match (value, method) {
        (Value::Int(_), "common") => Ok(value.clone()),
        (Value::Float(number), _) if !number.is_finite() => {
            Err(Failure::unsupported("`round` of such a float"))
        }
        (Value::Float(number), "common") => Ok(Value::Float(number.round_ties_even())),
        (Value::Int(_) | Value::Float(_), "ceil" | "floor") => {
            let number = arithmetic::float(value)?;
            if number.abs() >= EXACT {
                return Err(Failure::unsupported("`round` of such a number"));
            }
            let rounded = if method == "ceil" { number.ceil() } else { number.floor() };
            // Python goes by an integer here, which has no negative zero.
            Ok(Value::Float(rounded + 0.0))
        }
        (_, "common" | "ceil" | "floor") => {
            Err(Failure::unsupported(format_args!("`round` of {}", value.type_name())))
        }
        _ => Err(Failure::error("`round` knows the methods common, ceil and floor")),
    }
}
