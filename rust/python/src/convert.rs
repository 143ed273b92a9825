//! What all options are converted with: words, whole numbers, and the message where one is wrong.

use pyo3::prelude::*;

use crate::error;

/// Makes a newtype of an option that is one of a few words, written once, here.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident($kind:ty), $option:literal, { $($word:literal => $value:expr),+ $(,)? }) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) $kind);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                word(value, $option, &[$(($word, $value)),+]).map(Self)
            }
        }
    };
}

pub(crate) use words;

/// Makes a newtype of an option that is a whole number above 0.
macro_rules! counts {
    ($(#[$doc:meta])* $name:ident($kind:ty), $option:literal, $most:literal) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) $kind);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let refused = || refuse(value, $option, concat!("a whole number from 1 to ", $most));
                if value.is_instance_of::<PyBool>() {
                    return Err(refused());
                }
                value.extract::<$kind>().map(Self).map_err(|_| refused())
            }
        }
    };
}

pub(crate) use counts;

/// The meaning of the word that an option has.
pub(crate) fn word<T: Copy>(
    value: Borrowed<'_, '_, PyAny>,
    option: &'static str,
    words: &[(&str, T)],
) -> PyResult<T> {
    let text: Option<&str> = value.extract().ok();
    let found = words.iter().find(|(word, _)| text == Some(*word));
    found.map(|&(_, meaning)| meaning).ok_or_else(|| {
        let quoted: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        refuse(value, option, &format!("one of {}", quoted.join(", ")))
    })
}

/// Names the value that an option has, and what it may be.
pub(crate) fn refuse(value: Borrowed<'_, '_, PyAny>, option: &str, wanted: &str) -> PyErr {
    let shown = value.repr().map_or_else(|_| "the value".to_owned(), |text| text.to_string());
    error::option(value.py(), option, &format!("must be {wanted}, not `{shown}`"))
}
