//! Converts values to text by Python's `str` and `repr`.

use crate::failure::{Failure, RenderResult};
use crate::json::Json;
use crate::render_limits::{Allowance, MAX_NESTING, Meter};
use crate::text::{write_float, write_repr};
use crate::values::key::Key;
use crate::values::texts::text::Text;
use crate::values::value::Value;

/// Most digits of an integer that Python prints.
const MAX_DIGITS: usize = 4300;

/// Bits above which an integer has more digits than that.
const MAX_BITS: u64 = 14_290;

/// Writes `str(value)`.
pub(crate) fn write_str(
    out: &mut String,
    value: &Value<'_>,
    meter: &Meter<'_>,
) -> RenderResult<()> {
    match value {
        Value::Undefined => Ok(()),
        Value::String(text) | Value::Safe(text) => meter.write(out, text),
        other => write_value(out, other, 0, meter),
    }
}

/// `str(value)`, shared if the value is a string.
pub(crate) fn to_text<'r>(value: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Text<'r>> {
    match value {
        Value::String(text) | Value::Safe(text) => Ok(text.clone()),
        other => {
            let mut out = String::new();
            write_str(&mut out, other, meter)?;
            meter.text(out)
        }
    }
}

/// Python's `str` of a JSON value; `None` if it is not known to print it alike, or is too large.
pub fn python_text(value: &Json) -> Option<String> {
    let mut text = String::new();
    let meter = Meter::new(Allowance::RECORD, &|| 0, None);
    write_str(&mut text, &Value::from_json(value), &meter).ok()?;
    Some(text)
}

/// Writes `repr(value)`.
pub(crate) fn write_repr_of(
    out: &mut String,
    value: &Value<'_>,
    meter: &Meter<'_>,
) -> RenderResult<()> {
    write_value(out, value, 0, meter)
}

fn write_value(
    out: &mut String,
    value: &Value<'_>,
    depth: usize,
    meter: &Meter<'_>,
) -> RenderResult<()> {
    if depth > MAX_NESTING {
        return Err(Failure::unsupported(format_args!(
            "printing what nests deeper than {MAX_NESTING} levels"
        )));
    }
    meter.items(1)?;
    match value {
        Value::Undefined => meter.write(out, "Undefined"),
        Value::None => meter.write(out, "None"),
        Value::Bool(true) => meter.write(out, "True"),
        Value::Bool(false) => meter.write(out, "False"),
        Value::Int(value) => meter.write(out, &value.to_string()),
        Value::Big(value) => write_big(out, value, meter),
        Value::Float(value) => {
            let before = out.len();
            write_float(out, *value);
            meter.hold(out.len() - before)
        }
        Value::String(text) => write_repr(out, text, meter),
        Value::Safe(text) => {
            meter.write(out, "Markup(")?;
            write_repr(out, text, meter)?;
            meter.write_char(out, ')')
        }
        Value::List(items) => {
            meter.write_char(out, '[')?;
            write_items(out, items.iter(), depth, meter)?;
            meter.write_char(out, ']')
        }
        Value::Tuple(items) => {
            meter.write_char(out, '(')?;
            write_items(out, items.iter().cloned(), depth, meter)?;
            meter.write(out, if items.len() == 1 { ",)" } else { ")" })
        }
        Value::Dict(dict) => {
            meter.write_char(out, '{')?;
            for (at, (key, value)) in dict.iter().enumerate() {
                meter.write(out, if at == 0 { "" } else { ", " })?;
                match &key {
                    Key::Text(key) => write_repr(out, key, meter)?,
                    other => write_value(out, &other.value(), depth + 1, meter)?,
                }
                meter.write(out, ": ")?;
                write_value(out, &value, depth + 1, meter)?;
            }
            meter.write_char(out, '}')
        }
        Value::Range(range) => {
            let [first, last, step] = **range;
            let text = match step {
                1 => format!("range({first}, {last})"),
                _ => format!("range({first}, {last}, {step})"),
            };
            meter.write(out, &text)
        }
        other => Err(Failure::unsupported(format_args!("printing a {}", other.type_name()))),
    }
}

fn write_items<'r>(
    out: &mut String,
    items: impl Iterator<Item = Value<'r>>,
    depth: usize,
    meter: &Meter<'_>,
) -> RenderResult<()> {
    for (at, item) in items.enumerate() {
        meter.write(out, if at == 0 { "" } else { ", " })?;
        write_value(out, &item, depth + 1, meter)?;
    }
    Ok(())
}

/// Writes an integer of any size, up to where Python refuses.
pub(crate) fn write_big(
    out: &mut String,
    value: &num_bigint::BigInt,
    meter: &Meter<'_>,
) -> RenderResult<()> {
    let refuse = || {
        let reason = format!("an integer of more than {MAX_DIGITS} digits cannot be printed");
        Err(Failure::error(reason))
    };
    if value.bits() > MAX_BITS {
        return refuse();
    }
    // The work to find the digits grows with their square.
    let words = usize::try_from(value.bits() / 64).unwrap_or(usize::MAX);
    meter.characters(words * words)?;
    let digits = value.to_string();
    if digits.len() > MAX_DIGITS {
        return refuse();
    }
    meter.write(out, &digits)
}
