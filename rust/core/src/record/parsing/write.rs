//! Writes a [`Json`] as JSON, which [`json`](super::json) reads as the same value.

use std::io::Write;

use fastpack_template::json::{Json, Map};

/// Appends the JSON of `value`.
pub(crate) fn json(value: &Json, bytes: &mut Vec<u8>) {
    match value {
        Json::Null => bytes.extend_from_slice(b"null"),
        Json::Bool(truth) => bytes.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Json::Int(number) => display(number, bytes),
        Json::BigInt(number) => display(number, bytes),
        Json::Float(number) => float(*number, bytes),
        Json::String(text) => string(text, bytes),
        Json::List(items) => {
            bytes.push(b'[');
            for (at, item) in items.iter().enumerate() {
                separate(at, bytes);
                json(item, bytes);
            }
            bytes.push(b']');
        }
        Json::Map(entries) => map(entries, bytes),
    }
}

/// Appends the JSON of an object.
pub(crate) fn map(entries: &Map, bytes: &mut Vec<u8>) {
    bytes.push(b'{');
    for (at, (key, item)) in entries.iter().enumerate() {
        separate(at, bytes);
        string(key, bytes);
        bytes.push(b':');
        json(item, bytes);
    }
    bytes.push(b'}');
}

fn separate(at: usize, bytes: &mut Vec<u8>) {
    if at > 0 {
        bytes.push(b',');
    }
}

fn display(number: impl std::fmt::Display, bytes: &mut Vec<u8>) {
    write!(bytes, "{number}").expect("memory takes all that is written");
}

/// Appends the shortest digits that read as the same number, or Python's words for infinities and NaN.
///
/// # Panics
///
/// Never: writing to memory does not fail.
pub fn float(number: f64, bytes: &mut Vec<u8>) {
    if number.is_nan() {
        bytes.extend_from_slice(b"NaN");
    } else if number.is_infinite() {
        bytes.extend_from_slice(if number > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        write!(bytes, "{number:?}").expect("memory takes all that is written");
    }
}

/// Appends a text as JSON.
///
/// # Panics
///
/// Never: writing to memory does not fail.
pub fn string(text: &str, bytes: &mut Vec<u8>) {
    serde_json::to_writer(bytes, text).expect("memory takes all that is written");
}

#[cfg(test)]
mod tests {
    use super::super::json::parse;

    #[test]
    fn what_is_written_reads_as_the_same_value() {
        for text in [
            r#"{"a":[1,-2,3.5,1e300,1e-7,-0.0],"b":null,"c":"\u0000\"\\ü🙂\n","d":{},"e":[]}"#,
            "123456789012345678901234567890",
            "-Infinity",
            "[true,false]",
        ] {
            let value = parse(text.as_bytes()).expect("JSON");
            let mut written = Vec::new();
            super::json(&value, &mut written);
            assert_eq!(parse(&written).expect("JSON"), value, "{text}");
        }
    }
}
