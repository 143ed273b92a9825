//! Writes Python values as JSON, in the way of `json.dumps`, so that records in memory are read like those of
//! a file.

use std::io::{Cursor, Write};

use fastpack_core::record::{write_float as float, write_picture, write_string as string};
use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

/// The deepest nesting that is written. The core reads less and reports it with a better message; the stack
/// allows far more.
const DEEPEST: usize = 256;

/// Why a value was not written.
pub(crate) enum JsonValueError {
    /// JSON cannot hold it, for this reason.
    Unwritable(String),
    /// The caller's own mapping raised this, or a library raised an exception that is no fault of the value.
    Raised(PyErr),
}

impl JsonValueError {
    /// The error of a library for the value at a place. An interrupt or a lack of memory is no fault of the value.
    fn of(py: Python<'_>, place: &str, raised: PyErr) -> Self {
        let passes =
            raised.is_instance_of::<PyMemoryError>(py) || !raised.is_instance_of::<PyException>(py);
        if passes { Self::Raised(raised) } else { Self::Unwritable(format!("{place}: {raised}")) }
    }
}

/// Appends a record, or returns a message about the part that JSON cannot hold.
///
/// A field whose own value JSON cannot hold, such as a date, is left out: no shape reads such a field.
pub(crate) fn write(record: &Bound<'_, PyAny>, bytes: &mut Vec<u8>) -> Result<(), JsonValueError> {
    let Some(dict) = dict_of(record)? else {
        return append(record, bytes, "the record", 0);
    };
    bytes.push(b'{');
    let mut first = true;
    for (key, value) in dict.iter() {
        let name = text(&key, "the record")?;
        if is_leaf(&value) && !is_picture(&value) && text_in_bytes(&value).is_none() {
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

/// The text in bytes of UTF-8, as columns of bytes are read too.
fn text_in_bytes<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    let bytes = value.cast::<PyBytes>().ok()?;
    str::from_utf8(bytes.as_bytes()).ok()
}

/// True for bytes that are a picture, and for a picture of Pillow.
fn is_picture(value: &Bound<'_, PyAny>) -> bool {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return fastpack_core::picture::size(Cursor::new(bytes.as_bytes())).is_ok();
    }
    value.hasattr("getexif").unwrap_or(false) && value.hasattr("tobytes").unwrap_or(false)
}

/// Appends the bytes of a picture; an empty object for a picture of Pillow, which readers of pictures refuse by its place.
fn append_picture(value: &Bound<'_, PyAny>, bytes: &mut Vec<u8>) {
    match value.cast::<PyBytes>() {
        Ok(file) => write_picture(file.as_bytes(), bytes),
        Err(_) => bytes.extend_from_slice(b"{}"),
    }
}

/// True if a value is neither a JSON value nor a container of values.
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
        || value.cast::<PyMapping>().is_ok())
}

/// The value as a dict: itself if it is one, or a copy of another mapping, such as a `BatchEncoding`.
fn dict_of<'py>(value: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyDict>>, JsonValueError> {
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Some(dict.clone()));
    }
    let Ok(mapping) = value.cast::<PyMapping>() else { return Ok(None) };
    let dict = PyDict::new(value.py());
    dict.update(mapping).map_err(JsonValueError::Raised)?;
    Ok(Some(dict))
}

/// True if a value is an array that gives its values only by an array protocol.
fn is_array(value: &Bound<'_, PyAny>) -> bool {
    ["__dlpack__", "__array__"].iter().any(|name| value.hasattr(*name).unwrap_or(false))
}

/// Converts an array to a list.
fn listed<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if has_list(value) {
        return value.call_method0("tolist");
    }
    let by = if value.hasattr("__array__")? { "asarray" } else { "from_dlpack" };
    value.py().import("numpy")?.call_method1(by, (value,))?.call_method0("tolist")
}

/// True if a value has `tolist`, as arrays and numbers of libraries such as numpy have.
pub(crate) fn has_list(value: &Bound<'_, PyAny>) -> bool {
    value.hasattr("tolist").unwrap_or(false)
}

fn append(
    value: &Bound<'_, PyAny>,
    bytes: &mut Vec<u8>,
    place: &str,
    depth: usize,
) -> Result<(), JsonValueError> {
    if depth > DEEPEST {
        let message = format!("{place} is nested deeper than {DEEPEST} lists and objects");
        return Err(JsonValueError::Unwritable(message));
    }
    if value.is_none() {
        bytes.extend_from_slice(b"null");
    } else if let Ok(truth) = value.cast::<PyBool>() {
        bytes.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if let Ok(words) = value.cast::<PyString>() {
        append_text(words, bytes, place)?;
    } else if value.is_instance_of::<PyInt>() {
        integer(value, bytes, place)?;
    } else if let Ok(number) = value.cast::<PyFloat>() {
        float(
            number.extract().map_err(|raised| JsonValueError::of(value.py(), place, raised))?,
            bytes,
        );
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        list(value, bytes, place, depth)?;
    } else if let Ok(dict) = value.cast::<PyDict>() {
        object(dict, bytes, place, depth)?;
    } else if is_picture(value) {
        append_picture(value, bytes);
    } else if let Some(words) = text_in_bytes(value) {
        string(words, bytes);
    } else if has_list(value) || is_array(value) {
        let listed =
            listed(value).map_err(|raised| JsonValueError::of(value.py(), place, raised))?;
        append(&listed, bytes, place, depth + 1)?;
    } else if let Some(dict) = dict_of(value)? {
        object(&dict, bytes, place, depth)?;
    } else {
        let kind =
            value.get_type().name().map_or_else(|_| "value".to_owned(), |name| name.to_string());
        return Err(JsonValueError::Unwritable(format!(
            "{place} holds a `{kind}`, which is no JSON"
        )));
    }
    Ok(())
}

fn list(
    value: &Bound<'_, PyAny>,
    bytes: &mut Vec<u8>,
    place: &str,
    depth: usize,
) -> Result<(), JsonValueError> {
    bytes.push(b'[');
    let raised = |raised| JsonValueError::of(value.py(), place, raised);
    let items = value.try_iter().map_err(raised)?;
    for (at, item) in items.enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        let item = item.map_err(raised)?;
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
) -> Result<(), JsonValueError> {
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

fn text(value: &Bound<'_, PyAny>, place: &str) -> Result<String, JsonValueError> {
    let Ok(words) = value.cast::<PyString>() else {
        return Err(JsonValueError::Unwritable(format!("{place} has keys that are no text")));
    };
    let message = || format!("{place} holds half of a surrogate pair, which is no text");
    words.extract().map_err(|_| JsonValueError::Unwritable(message()))
}

/// Appends a text. One with half of a surrogate pair is escaped, so that the core refuses it if it reads the field.
fn append_text(
    value: &Bound<'_, PyString>,
    bytes: &mut Vec<u8>,
    place: &str,
) -> Result<(), JsonValueError> {
    if let Ok(words) = value.extract::<&str>() {
        string(words, bytes);
        return Ok(());
    }
    let escaped = || value.py().import("json")?.call_method1("dumps", (value,))?.extract();
    let escaped: String =
        escaped().map_err(|raised| JsonValueError::of(value.py(), place, raised))?;
    bytes.extend_from_slice(escaped.as_bytes());
    Ok(())
}

/// Appends an integer of any size. Python formats those that do not fit 64 bits.
fn integer(
    value: &Bound<'_, PyAny>,
    bytes: &mut Vec<u8>,
    place: &str,
) -> Result<(), JsonValueError> {
    if let Ok(number) = value.extract::<i64>() {
        write!(bytes, "{number}").expect("memory takes all that is written");
        return Ok(());
    }
    let digits = digits(value).map_err(|raised| JsonValueError::of(value.py(), place, raised))?;
    bytes.extend_from_slice(digits.as_bytes());
    Ok(())
}

/// The digits of an integer of any size, also of a class that writes them otherwise.
pub(crate) fn digits(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let integer = value.py().get_type::<PyInt>();
    integer.call_method1("__repr__", (value,))?.extract()
}
