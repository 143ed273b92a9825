//! Sealed states: JSON objects that travel as dicts, each with its kind and a hash of all its values. An edited one is refused.
//!
//! The hash covers canonical JSON, in which keys are sorted and numbers exact, since a dict keeps no text. Files that are
//! stored as text are [`sealed`](crate::util::disk::sealed) over their bytes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::{Deref, Range};
use std::sync::OnceLock;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::util::message::quoted;

/// The key of the hash.
const SEAL: &str = "blake3";

/// The key of the kind of object that a state belongs to, such as `stream`.
const KIND: &str = "state_of";

/// The state of an object of the kind `kind` as sealed JSON, with the hash in front. Each field has a name and [`canonical`] text.
pub(crate) fn seal<'a>(
    kind: &str,
    fields: impl IntoIterator<Item = (&'a str, Cow<'a, str>)>,
) -> String {
    let of_kind = (KIND, canonical(&kind).into());
    let named = fields.into_iter().chain([of_kind]).map(|(name, value)| (canonical(&name), value));
    let mut fields: Vec<(String, Cow<'_, str>)> = named.collect();
    fields.sort_unstable_by(|(one, _), (other, _)| in_order(one.as_bytes(), other.as_bytes()));
    let mut text = String::with_capacity(fields.iter().map(|(_, value)| value.len() + 32).sum());
    for (name, value) in &fields {
        let begin = if text.is_empty() { "{" } else { "," };
        text.extend([begin, name, ":", value]);
    }
    text.push('}');
    let hash = blake3::hash(text.as_bytes()).to_hex();
    format!("{{\"{SEAL}\":\"{hash}\",{}", &text[1..])
}

/// The values of the sealed state in `text`, without its kind and hash.
///
/// # Errors
///
/// [`Error::Option`] about `option` if it is no state of the kind `kind`, or was changed since it was sealed.
pub(crate) fn open(kind: &str, text: &str, option: &'static str) -> Result<Map<String, Value>> {
    let refused = |reason: String| Error::option(option, reason);
    let wanted = format!("it must be what `state_dict()` of a `{kind}` returned");
    let value = serde_json::from_str(text)
        .map_err(|error| refused(format!("is no JSON: {error}; {wanted}")))?;
    let Value::Object(mut fields) = value else {
        return Err(refused(format!("is no dict; {wanted}")));
    };
    if fields.is_empty() {
        return Err(refused(format!("is empty; {wanted}")));
    }
    let Some(Value::String(seal)) = fields.shift_remove(SEAL) else {
        let reason = format!("has no `{SEAL}`, the hash of the state; {wanted}");
        return Err(refused(reason));
    };
    let value = Value::Object(fields);
    if blake3::hash(canonical(&value).as_bytes()).to_hex().as_str() != seal {
        let reason = format!(
            "was changed since it was saved: its `{SEAL}` is the hash of other values; {wanted}"
        );
        return Err(refused(reason));
    }
    let Value::Object(mut fields) = value else { unreachable!("made of fields") };
    match fields.shift_remove(KIND) {
        Some(Value::String(found)) if found == kind => Ok(fields),
        Some(Value::String(found)) => {
            let found = quoted(&found);
            Err(refused(format!("is the state of a `{found}`; {wanted}")))
        }
        _ => Err(refused(format!("has no `{KIND}`; {wanted}"))),
    }
}

/// The JSON object in `text` as sealed JSON, as [`seal`] writes it.
///
/// # Errors
///
/// [`Error::Option`] about `option` if `text` is no JSON object.
pub fn seal_text(kind: &str, text: &str, option: &'static str) -> Result<String> {
    let fields: serde_json::Result<Map<String, Value>> = serde_json::from_str(text);
    let refused = |error| Error::option(option, format!("is no dict of JSON values: {error}"));
    let fields = fields.map_err(refused)?;
    let given = fields.iter().filter(|(name, _)| *name != SEAL && *name != KIND);
    Ok(seal(kind, given.map(|(name, value)| (name.as_str(), canonical(value).into()))))
}

/// The values of a sealed state, as [`open`] returns them, as JSON.
///
/// # Errors
///
/// As [`open`].
pub fn open_text(kind: &str, text: &str, option: &'static str) -> Result<String> {
    open(kind, text, option).map(|fields| Value::Object(fields).to_string())
}

/// A value of many states, whose text is written once.
#[derive(Debug)]
pub(crate) struct WrittenOnce<T> {
    value: T,
    text: OnceLock<String>,
}

impl<T: Serialize> WrittenOnce<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, text: OnceLock::new() }
    }

    /// Its [`canonical`] text.
    pub(crate) fn text(&self) -> &str {
        self.text.get_or_init(|| canonical(&self.value))
    }
}

impl<T> Deref for WrittenOnce<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// JSON in which equal values have equal text: without spaces, keys sorted, numbers exact.
pub(crate) fn canonical(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).expect("strings and numbers become JSON");
    let mut sorting = Sorting { rest: &text, sorted: Vec::with_capacity(text.len()) };
    sorting.value();
    String::from_utf8(sorting.sorted).expect("JSON is UTF-8")
}

/// The order of two names in quotes: a name comes before those that it begins.
fn in_order(one: &[u8], other: &[u8]) -> Ordering {
    one[..one.len() - 1].cmp(&other[..other.len() - 1])
}

/// Sorts the fields of compact JSON. Each table of a stream has a state, and text takes a fraction of the time of values.
struct Sorting<'t> {
    rest: &'t [u8],
    sorted: Vec<u8>,
}

impl Sorting<'_> {
    fn copy(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.sorted.extend_from_slice(taken);
        self.rest = rest;
    }

    fn value(&mut self) {
        match self.rest[0] {
            b'{' => self.object(),
            b'[' => {
                self.copy(1);
                while self.rest[0] != b']' {
                    if self.rest[0] == b',' {
                        self.copy(1);
                    }
                    self.value();
                }
                self.copy(1);
            }
            b'"' => self.string(),
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}');
                self.copy(self.rest.iter().position(is_end).unwrap_or(self.rest.len()));
            }
        }
    }

    fn string(&mut self) {
        let mut end = 1;
        loop {
            end += memchr::memchr2(b'"', b'\\', &self.rest[end..]).expect("the end of a string");
            if self.rest[end] == b'"' {
                break;
            }
            end += 2;
        }
        self.copy(end + 1);
    }

    fn object(&mut self) {
        self.copy(1);
        let start = self.sorted.len();
        // The name and the whole of each field.
        let mut fields: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        while self.rest[0] != b'}' {
            if self.rest[0] == b',' {
                self.copy(1);
            }
            let field = self.sorted.len();
            self.string();
            let name = field..self.sorted.len();
            self.copy(1);
            self.value();
            fields.push((name, field..self.sorted.len()));
        }
        let name = |(name, _): &(Range<usize>, Range<usize>)| &self.sorted[name.clone()];
        let order = |one: &_, other: &_| in_order(name(one), name(other));
        if !fields.is_sorted_by(|one, other| order(one, other).is_lt()) {
            fields.sort_unstable_by(order);
            let fields = fields.iter().map(|(_, field)| &self.sorted[field.clone()]);
            let text = fields.collect::<Vec<_>>().join(&b',');
            self.sorted.truncate(start);
            self.sorted.extend(text);
        }
        self.copy(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn fields() -> impl Strategy<Value = Map<String, Value>> {
        prop::collection::vec((".{0,4}", values()), 0..5)
            .prop_map(|fields| fields.into_iter().collect())
    }

    fn sealed(kind: &str, fields: &Map<String, Value>) -> String {
        seal(kind, fields.iter().map(|(name, value)| (name.as_str(), canonical(value).into())))
    }

    /// The same values with all keys in the opposite order.
    fn turned(value: Value) -> Value {
        match value {
            Value::Array(items) => items.into_iter().map(turned).collect(),
            Value::Object(fields) => {
                let fields = fields.into_iter().rev();
                Value::Object(fields.map(|(name, value)| (name, turned(value))).collect())
            }
            scalar => scalar,
        }
    }

    proptest! {
        #[test]
        fn a_state_opens_as_it_was_in_whatever_order_its_keys_come(fields in fields()) {
            let text = sealed("stream", &fields);
            let value: Value = serde_json::from_str(&text).expect("JSON");
            for text in [text, turned(value).to_string()] {
                let opened = open("stream", &text, "state").expect("a state");
                prop_assert_eq!(Value::Object(opened), Value::Object(fields.clone()));
            }
        }

        #[test]
        fn another_value_a_missing_key_and_another_kind_are_refused(
            fields in fields(), at in any::<prop::sample::Index>(), other in values()
        ) {
            let text = sealed("stream", &fields);
            let Value::Object(whole) = serde_json::from_str(&text).expect("JSON") else { unreachable!() };
            let name = (*at.get(&whole.keys().collect::<Vec<_>>())).clone();
            let mut edited = whole.clone();
            let before = edited.insert(name.clone(), other.clone());
            let edited = Value::Object(edited).to_string();
            let is_same = before.map(|it| canonical(&it)) == Some(canonical(&other));
            prop_assert_eq!(open("stream", &edited, "state").is_ok(), is_same);
            let mut less = whole;
            less.shift_remove(&name);
            prop_assert!(open("stream", &Value::Object(less).to_string(), "state").is_err());
            prop_assert!(open("sampler", &text, "state").is_err());
        }
    }

    #[test]
    fn whole_numbers_and_those_with_a_point_are_different_values() {
        let text = seal("stream", [("rows", "5".into())]);
        assert!(open("stream", &text.replace(":5", ":5.0"), "state").is_err());
        assert!(open("stream", &text.replace(":5", ":5e0"), "state").is_err());
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let whole = seal("stream", [("rows", "5".into())]);
        let other = seal("PackSampler", [("rows", "5".into())]);
        for (text, expected) in [
            ("null", "is no dict"),
            ("[]", "is no dict"),
            ("{}", "is empty"),
            ("{", "is no JSON"),
            ("{\"rows\": 5}", "has no `blake3`"),
            (&other, "is the state of a `PackSampler`"),
            (&whole.replace(":5", ":6"), "was changed since it was saved"),
        ] {
            let error = open("stream", text, "state_dict").expect_err(text).to_string();
            assert!(error.contains(expected) && error.contains("state_dict"), "{text}: {error}");
        }
    }
}
