//! Parses a line of JSON into a [`Json`], as Python's `json.loads` does.
//!
//! `NaN` and the infinities are numbers, integers have any size, the last of equal keys wins in the place of
//! the first. Two things are stricter: half a surrogate pair is refused, since no tokenizer can take it, and so
//! is nesting past [`MAX_DEPTH`].

use std::sync::Arc;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, NumberAny, NumberInt, Peek};

use super::fault::Fault;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// The deepest nesting of lists and objects: more than any record needs, and far from the end of the stack.
pub const MAX_DEPTH: usize = 200;

/// The most keys of a line that are shared: searching them takes less time than allocating another.
const KNOWN_KEYS: usize = 32;

/// Reads one line.
pub(crate) fn parse(line: &[u8]) -> Result<Json, Fault> {
    if let Err(error) = simdutf8::compat::from_utf8(line) {
        let at = error.valid_up_to() + 1;
        return Err(Fault::new(Reason::InvalidUtf8, format!("byte {at} of the line is not UTF-8")));
    }
    let mut reader = JsonReader::new(line);
    reader.whole().map_err(|error| fault(&error, &reader.json))
}

/// The fields of a line in which halves of surrogate pairs stand, each half replaced by U+FFFD, and the names of the fields
/// that have some; `None` if the line is no object otherwise.
pub(crate) fn mended(line: &[u8]) -> Option<(Arc<Map>, Vec<Arc<str>>)> {
    let [one, other] = [*b"FFFD", *b"FFFC"].map(|digits| parse(&without_halves(line, digits)).ok());
    let (Json::Map(one), Json::Map(other)) = (one?, other?) else { return None };
    // Two names that differ in their halves alone.
    if one.len() != other.len() {
        return None;
    }
    let differ = one.iter().zip(other.values()).filter(|((_, one), other)| one != other);
    let broken = differ.map(|((name, _), _)| Arc::clone(name)).collect();
    Some((one, broken))
}

/// A line with the digits of all halves of surrogate pairs replaced.
fn without_halves(line: &[u8], digits: [u8; 4]) -> Vec<u8> {
    let unit = |at: usize| {
        let escape = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(str::from_utf8(escape).ok()?, 16).ok()
    };
    let mut mended = line.to_vec();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &line[at..]) {
        at += found;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
            (Some(0xD800..0xE000), _) => {
                mended[at + 2..at + 6].copy_from_slice(&digits);
                6
            }
            // The second character of another escape may be a backslash.
            _ => 2.min(line.len() - at),
        };
    }
    mended
}

/// The value at the start of `text`, at nesting depth `depth`, and its number of bytes; `None` if there is
/// none.
pub(crate) fn prefix(text: &[u8], depth: usize) -> Option<(Json, usize)> {
    let mut reader = JsonReader::new(text);
    let peek = reader.json.peek().ok()?;
    let value = reader.value(peek, depth).ok()?;
    Some((value, reader.json.current_index()))
}

/// The value of a field, parsed if it is JSON text, as tables store lists; `None` if the field is absent.
pub(crate) fn unfold(record: &Map, field: &str) -> Result<Option<Json>, Fault> {
    match record.get(field) {
        Some(Json::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Json::String(text)) => parse(text.as_bytes()).map(Some).map_err(|fault| {
            let message = format!("`{field}` is a string but not JSON: {}", fault.message);
            Fault::new(fault.reason, message)
        }),
        value => Ok(value.cloned()),
    }
}

/// Parses text into values.
struct JsonReader<'t> {
    json: Jiter<'t>,
    /// The first keys that were met, shared by many objects.
    keys: Vec<Arc<str>>,
}

impl<'t> JsonReader<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self { json: Jiter::new(text).with_allow_inf_nan(), keys: Vec::new() }
    }

    /// The value of the whole text.
    fn whole(&mut self) -> Result<Json, JiterError> {
        let peek = self.json.peek()?;
        let value = self.value(peek, 0)?;
        self.json.finish()?;
        Ok(value)
    }

    fn value(&mut self, peek: Peek, depth: usize) -> Result<Json, JiterError> {
        let json = &mut self.json;
        match peek {
            Peek::Null => json.known_null().map(|()| Json::Null),
            Peek::True | Peek::False => json.known_bool(peek).map(Json::Bool),
            Peek::String => json.known_str().map(|text| Json::String(Arc::from(text))),
            Peek::Array => self.list(self.deeper(depth)?),
            Peek::Object => self.map(self.deeper(depth)?),
            _ => json.known_number(peek).map(number),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, JiterError> {
        if depth < MAX_DEPTH {
            return Ok(depth + 1);
        }
        let error_type = JiterErrorType::JsonError(JsonErrorType::RecursionLimitExceeded);
        Err(JiterError { error_type, index: self.json.current_index() })
    }

    fn list(&mut self, depth: usize) -> Result<Json, JiterError> {
        let mut items = Vec::new();
        let mut next = self.json.known_array()?;
        while let Some(peek) = next {
            items.push(self.value(peek, depth)?);
            next = self.json.array_step()?;
        }
        Ok(Json::List(Arc::new(items)))
    }

    fn map(&mut self, depth: usize) -> Result<Json, JiterError> {
        let mut entries = Map::default();
        let mut next = self.json.known_object()?.map(|key| known(&mut self.keys, key));
        while let Some(key) = next {
            let peek = self.json.peek()?;
            entries.insert(key, self.value(peek, depth)?);
            next = self.json.next_key()?.map(|key| known(&mut self.keys, key));
        }
        Ok(Json::Map(Arc::new(entries)))
    }
}

/// The key with this name, shared if it is among `keys`.
fn known(keys: &mut Vec<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(key) = keys.iter().find(|key| ***key == *name) {
        return Arc::clone(key);
    }
    let key: Arc<str> = Arc::from(name);
    if keys.len() < KNOWN_KEYS {
        keys.push(Arc::clone(&key));
    }
    key
}

fn number(number: NumberAny) -> Json {
    match number {
        NumberAny::Int(NumberInt::Int(int)) => Json::Int(int),
        NumberAny::Int(NumberInt::BigInt(int)) => match i64::try_from(&int) {
            Ok(int) => Json::Int(int),
            Err(_) => Json::BigInt(Arc::new(int)),
        },
        NumberAny::Float(float) => Json::Float(float),
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

/// The message with a lower-case start, as our own messages have it.
fn lower_first(message: &str) -> String {
    let mut characters = message.chars();
    match characters.next() {
        Some(first) if !message.starts_with("EOF") && !message.starts_with("JSON") => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => message.to_owned(),
    }
}
