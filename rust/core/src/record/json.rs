//! A line of JSON to a [`Value`], as Python's `json.loads` reads it.
//!
//! `NaN` and the infinities are numbers, integers have any size, the last of equal keys wins in the place of
//! the first. Two things are stricter: half a surrogate pair is refused, since no tokenizer can take it, and so
//! is nesting past [`MAX_DEPTH`].

use std::sync::Arc;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, NumberAny, NumberInt, Peek};

use super::Fault;
use super::value::{Map, Value};
use crate::ledger::Reason;

/// Lists and objects may be nested this deep: more than any record needs, and far from the end of the stack.
pub const MAX_DEPTH: usize = 200;

/// Reads one line.
pub(crate) fn parse(line: &[u8]) -> Result<Value, Fault> {
    if let Err(error) = simdutf8::compat::from_utf8(line) {
        let at = error.valid_up_to() + 1;
        return Err(Fault::new(Reason::InvalidUtf8, format!("byte {at} of the line is not UTF-8")));
    }
    let mut json = Jiter::new(line).with_allow_inf_nan();
    let value = json.peek().and_then(|peek| value(&mut json, peek, 0)).and_then(|value| {
        json.finish()?;
        Ok(value)
    });
    value.map_err(|error| fault(&error, &json))
}

/// The value that `text` begins with, `depth` levels deep in a record, and how many bytes it takes; nothing where
/// there is none.
pub(super) fn prefix(text: &[u8], depth: usize) -> Option<(Value, usize)> {
    let mut json = Jiter::new(text).with_allow_inf_nan();
    let peek = json.peek().ok()?;
    let value = value(&mut json, peek, depth).ok()?;
    Some((value, json.current_index()))
}

/// The value of a field, parsed where it is JSON text, as tables have to hold lists; nothing where it is absent.
pub(super) fn unfold(record: &Map, field: &str) -> Result<Option<Value>, Fault> {
    match record.get(field) {
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => parse(text.as_bytes()).map(Some).map_err(|fault| {
            let message = format!("`{field}` is a string but not JSON: {}", fault.message);
            Fault::new(fault.reason, message)
        }),
        value => Ok(value.cloned()),
    }
}

fn value(json: &mut Jiter<'_>, peek: Peek, depth: usize) -> Result<Value, JiterError> {
    match peek {
        Peek::Null => json.known_null().map(|()| Value::Null),
        Peek::True | Peek::False => json.known_bool(peek).map(Value::Bool),
        Peek::String => json.known_str().map(|text| Value::String(Arc::from(text))),
        Peek::Array => list(json, deeper(json, depth)?),
        Peek::Object => map(json, deeper(json, depth)?),
        _ => json.known_number(peek).map(number),
    }
}

fn deeper(json: &Jiter<'_>, depth: usize) -> Result<usize, JiterError> {
    if depth < MAX_DEPTH {
        return Ok(depth + 1);
    }
    let error_type = JiterErrorType::JsonError(JsonErrorType::RecursionLimitExceeded);
    Err(JiterError { error_type, index: json.current_index() })
}

fn list(json: &mut Jiter<'_>, depth: usize) -> Result<Value, JiterError> {
    let mut items = Vec::new();
    let mut next = json.known_array()?;
    while let Some(peek) = next {
        items.push(value(json, peek, depth)?);
        next = json.array_step()?;
    }
    Ok(Value::List(Arc::new(items)))
}

fn map(json: &mut Jiter<'_>, depth: usize) -> Result<Value, JiterError> {
    let mut entries = Map::new();
    let mut next = json.known_object()?.map(Arc::<str>::from);
    while let Some(key) = next {
        let peek = json.peek()?;
        entries.insert(key, value(json, peek, depth)?);
        next = json.next_key()?.map(Arc::from);
    }
    Ok(Value::Map(Arc::new(entries)))
}

fn number(number: NumberAny) -> Value {
    match number {
        NumberAny::Int(NumberInt::Int(int)) => Value::Int(int),
        NumberAny::Int(NumberInt::BigInt(int)) => match i64::try_from(&int) {
            Ok(int) => Value::Int(int),
            Err(_) => Value::BigInt(Arc::new(int)),
        },
        NumberAny::Float(float) => Value::Float(float),
    }
}

fn fault(error: &JiterError, json: &Jiter<'_>) -> Fault {
    let column = error.get_position(json).column;
    match &error.error_type {
        JiterErrorType::JsonError(
            JsonErrorType::LoneLeadingSurrogateInHexEscape
            | JsonErrorType::UnexpectedEndOfHexEscape,
        ) => Fault::new(
            Reason::LoneSurrogate,
            format!(
                "column {column}: half a surrogate pair is no text; write the whole pair or the character"
            ),
        ),
        JiterErrorType::JsonError(JsonErrorType::RecursionLimitExceeded) => Fault::new(
            Reason::TooDeep,
            format!("column {column}: nested deeper than {MAX_DEPTH} lists and objects"),
        ),
        other => Fault::new(
            Reason::InvalidJson,
            format!("column {column}: {}", lower_first(&other.to_string())),
        ),
    }
}

/// Lower case where a sentence begins, as our own messages have it.
fn lower_first(message: &str) -> String {
    let mut characters = message.chars();
    match characters.next() {
        Some(first) if !message.starts_with("EOF") && !message.starts_with("JSON") => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => message.to_owned(),
    }
}
