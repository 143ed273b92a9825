//! Values to text: Python's `str` and `repr`.

use std::fmt::Write as _;

use super::failure::{Failure, Outcome};
use super::limits::{MAX_NESTING, check_size};
use super::text::{write_float, write_repr};
use super::value::{Text, Value};

/// Writes `str(value)`.
pub(super) fn write_str(out: &mut String, value: &Value<'_>) -> Outcome<()> {
    match value {
        Value::Undefined => Ok(()),
        Value::String(text) | Value::Safe(text) => {
            out.push_str(text);
            Ok(())
        }
        other => write_value(out, other, 0),
    }
}

/// `str(value)`, shared if the value is a string.
pub(super) fn to_text<'r>(value: &Value<'r>) -> Outcome<Text<'r>> {
    match value {
        Value::String(text) | Value::Safe(text) => Ok(text.clone()),
        other => {
            let mut out = String::new();
            write_str(&mut out, other)?;
            Ok(out.into())
        }
    }
}

/// Writes `repr(value)`.
fn write_value(out: &mut String, value: &Value<'_>, depth: usize) -> Outcome<()> {
    if depth > MAX_NESTING {
        return Err(Failure::unsupported(format_args!(
            "printing what nests deeper than {MAX_NESTING} levels"
        )));
    }
    check_size(out.len())?;
    match value {
        Value::Undefined => out.push_str("Undefined"),
        Value::None => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Big(value) => write_big(out, value)?,
        Value::Float(value) => write_float(out, *value),
        Value::String(text) => write_repr(out, text)?,
        Value::Safe(text) => {
            out.push_str("Markup(");
            write_repr(out, text)?;
            out.push(')');
        }
        Value::List(items) => {
            out.push('[');
            write_items(out, items.iter(), depth)?;
            out.push(']');
        }
        Value::Tuple(items) => {
            out.push('(');
            write_items(out, items.iter().cloned(), depth)?;
            out.push_str(if items.len() == 1 { ",)" } else { ")" });
        }
        Value::Dict(dict) => {
            out.push('{');
            for (at, (key, value)) in dict.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write_repr(out, &key)?;
                out.push_str(": ");
                write_value(out, &value, depth + 1)?;
            }
            out.push('}');
        }
        Value::Range(range) => {
            let [first, last, step] = **range;
            // Writing to a string cannot fail.
            let _ = match step {
                1 => write!(out, "range({first}, {last})"),
                _ => write!(out, "range({first}, {last}, {step})"),
            };
        }
        other => {
            return Err(Failure::unsupported(format_args!("printing a {}", other.type_name())));
        }
    }
    Ok(())
}

fn write_items<'r>(
    out: &mut String,
    items: impl Iterator<Item = Value<'r>>,
    depth: usize,
) -> Outcome<()> {
    for (at, item) in items.enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        write_value(out, &item, depth + 1)?;
    }
    Ok(())
}

/// Writes an integer of any size, up to where Python refuses.
pub(super) fn write_big(out: &mut String, value: &num_bigint::BigInt) -> Outcome<()> {
    let digits = value.to_string();
    if digits.len() > 4300 {
        return Err(Failure::error("an integer of more than 4300 digits cannot be printed"));
    }
    out.push_str(&digits);
    Ok(())
}
