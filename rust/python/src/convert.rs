//! Shared conversions of option values: words, switches, whole numbers and shares; and the refusal of
//! a bad one.

use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error;

/// Defines a newtype for an option that takes one of the words of a core enum.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident($kind:ty), $option:literal) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) $kind);

        impl $name {
            /// The option's name, and the words that it takes.
            pub(crate) fn words() -> (&'static str, Vec<&'static str>) {
                ($option, <$kind>::WORDS.iter().map(|(word, _)| *word).collect())
            }
        }

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                word(value, $option, <$kind>::WORDS).map(Self)
            }
        }
    };
}

pub(crate) use words;

/// Defines a newtype for a boolean option.
macro_rules! switches {
    ($(#[$doc:meta])* $name:ident, $option:literal) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) bool);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let on = value.cast::<PyBool>().map(|on| Self(on.is_true()));
                on.map_err(|_| refuse(value, $option, "True or False"))
            }
        }
    };
}

pub(crate) use switches;

/// Defines a newtype for an option that is a whole number from 1 to `$most`.
macro_rules! counts {
    ($(#[$doc:meta])* $name:ident($kind:ty), $option:literal, $most:expr) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) $kind);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let count = value.extract::<$kind>().ok();
                let count = count.filter(|it| it.get() <= $most && !value.is_instance_of::<PyBool>());
                let refused = || refuse(value, $option, &format!("a whole number from 1 to {}", $most));
                count.map(Self).ok_or_else(refused)
            }
        }
    };
}

pub(crate) use counts;

/// Looks up the word given for an option, or that of a value with options of its own, and returns its enum value.
pub(crate) fn word<T: Copy>(
    value: Borrowed<'_, '_, PyAny>,
    option: &'static str,
    words: &[(&str, T)],
) -> PyResult<T> {
    let kind = || value.getattr("kind").ok()?.extract::<String>().ok();
    let text = value.extract::<String>().ok().or_else(kind);
    let found = words.iter().find(|(word, _)| text.as_deref() == Some(*word));
    found.map(|&(_, meaning)| meaning).ok_or_else(|| {
        let quoted: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        refuse(value, option, &format!("one of {}", quoted.join(", ")))
    })
}

/// Reads a field of a dataclass.
pub(crate) fn field<'py, T>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    value.getattr(name)?.extract().map_err(Into::into)
}

/// The most characters of a value that a message quotes: enough to recognise it.
const SHOWN: usize = 100;

/// The `OptionError` of a bad value: it quotes the value, and says which values are `wanted`.
pub(crate) fn refuse(value: Borrowed<'_, '_, PyAny>, option: &str, wanted: &str) -> PyErr {
    let mut shown = value.repr().map_or_else(|_| "the value".to_owned(), |text| text.to_string());
    if let Some((cut, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(cut);
        shown.push_str("...");
    }
    error::option(value.py(), option, &format!("must be {wanted}, not `{shown}`"))
}

/// Reads a share: a number, or a text such as `0.1%`. The caller checks its range.
pub(crate) fn read_share(value: Borrowed<'_, '_, PyAny>) -> Option<f64> {
    match value.extract::<&str>() {
        // Parsed as `0.7e-2`: 0.7 / 100 is not the `f64` nearest to 0.007.
        Ok(text) => match text.strip_suffix('%') {
            Some(percent) => format!("{}e-2", percent.trim()).parse().ok(),
            None => text.parse().ok(),
        },
        Err(_) => value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>()),
    }
}
