//! Python values to JSON, as `json.dumps` writes them: what a file of the same records would hold.

use std::io::Write;

use fastpack_core::record::{write_float as float, write_string as string};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

/// How deep values may nest: more than the core reads, which has the words for it, and far from the end of the stack.
const DEEPEST: usize = 256;

/// Appends a record, or says which part of it is no JSON.
///
/// A field that is no JSON itself, such as a date, is left out: no shape could read it.
pub(crate) fn write(record: &Bound<'_, PyAny>, bytes: &mut Vec<u8>) -> Result<(), String> {
    let Some(dict) = dict_of(record) else {
        return append(record, bytes, "the record", 0);
    };
    bytes.push(b'{');
    let mut first = true;
    for (key, value) in dict.iter() {
        let name = text(&key, "the record")?;
        if is_leaf(&value) {
            continue;
        }
        if !std::mem::take(&mut first) {
            bytes.push(b',');
        }
        string(&name, bytes);
        bytes.push(b':');
        append(&value, bytes, &format!("`{name}`"), 1)?;
    }
    bytes.push(b'}');
    Ok(())
}

/// Whether it is nothing that JSON can hold, and nothing that could hold something.
fn is_leaf(value: &Bound<'_, PyAny>) -> bool {
    !(value.is_none()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || has_list(value)
        || is_array(value)
        || dict_of(value).is_some())
}

/// The dict that a value is, or that holds what a mapping of another kind holds, such as a `BatchEncoding`.
fn dict_of<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    if let Ok(dict) = value.cast::<PyDict>() {
        return Some(dict.clone());
    }
    let mapping = value.cast::<PyMapping>().ok()?;
    let dict = PyDict::new(value.py());
    dict.update(mapping).ok()?;
    Some(dict)
}

/// Whether it is an array that says its values only by a protocol of arrays.
fn is_array(value: &Bound<'_, PyAny>) -> bool {
    ["__dlpack__", "__array__"].iter().any(|name| value.hasattr(*name).unwrap_or(false))
}

/// The values of an array as a list.
fn listed<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if has_list(value) {
        return value.call_method0("tolist");
    }
    let by = if value.hasattr("__array__")? { "asarray" } else { "from_dlpack" };
    value.py().import("numpy")?.call_method1(by, (value,))?.call_method0("tolist")
}

/// Whether it is an array or a number of a library such as numpy.
pub(crate) fn has_list(value: &Bound<'_, PyAny>) -> bool {
    value.hasattr("tolist").unwrap_or(false)
}

fn append(
    value: &Bound<'_, PyAny>,
    bytes: &mut Vec<u8>,
    place: &str,
    depth: usize,
) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("{place} is nested deeper than {DEEPEST} lists and objects"));
    }
    if value.is_none() {
        bytes.extend_from_slice(b"null");
    } else if let Ok(truth) = value.cast::<PyBool>() {
        bytes.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if let Ok(words) = value.cast::<PyString>() {
        string(&text(words, place)?, bytes);
    } else if value.is_instance_of::<PyInt>() {
        integer(value, bytes, place)?;
    } else if let Ok(number) = value.cast::<PyFloat>() {
        float(number.extract().map_err(|error: PyErr| error.to_string())?, bytes);
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        list(value, bytes, place, depth)?;
    } else if let Ok(dict) = value.cast::<PyDict>() {
        object(dict, bytes, place, depth)?;
    } else if has_list(value) || is_array(value) {
        let listed = listed(value).map_err(|error| format!("{place}: {error}"))?;
        append(&listed, bytes, place, depth + 1)?;
    } else if let Some(dict) = dict_of(value) {
        object(&dict, bytes, place, depth)?;
    } else {
        let kind =
            value.get_type().name().map_or_else(|_| "value".to_owned(), |name| name.to_string());
        return Err(format!("{place} holds a `{kind}`, which is no JSON"));
    }
    Ok(())
}

fn list(
    value: &Bound<'_, PyAny>,
    bytes: &mut Vec<u8>,
    place: &str,
    depth: usize,
) -> Result<(), String> {
    bytes.push(b'[');
    let items = value.try_iter().map_err(|error| format!("{place}: {error}"))?;
    for (at, item) in items.enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        let item = item.map_err(|error| format!("{place}: {error}"))?;
        append(&item, bytes, place, depth + 1)?;
    }
    bytes.push(b']');
    Ok(())
}

fn object(
    dict: &Bound<'_, PyDict>,
    bytes: &mut Vec<u8>,
    place: &str,
    depth: usize,
) -> Result<(), String> {
    bytes.push(b'{');
    for (at, (key, item)) in dict.iter().enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        string(&text(&key, place)?, bytes);
        bytes.push(b':');
        append(&item, bytes, place, depth + 1)?;
    }
    bytes.push(b'}');
    Ok(())
}

fn text(value: &Bound<'_, PyAny>, place: &str) -> Result<String, String> {
    let Ok(words) = value.cast::<PyString>() else {
        return Err(format!("{place} has keys that are no text"));
    };
    words.extract().map_err(|_| format!("{place} holds half of a surrogate pair, which is no text"))
}

/// Integers of any size: Python writes what does not fit 64 bits.
fn integer(value: &Bound<'_, PyAny>, bytes: &mut Vec<u8>, place: &str) -> Result<(), String> {
    if let Ok(number) = value.extract::<i64>() {
        write!(bytes, "{number}").expect("memory takes all that is written");
        return Ok(());
    }
    let digits = value.call_method0("__repr__").and_then(|digits| digits.extract::<String>());
    bytes.extend_from_slice(digits.map_err(|error| format!("{place}: {error}"))?.as_bytes());
    Ok(())
}
