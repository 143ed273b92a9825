//! [`PySpecialTokens`]: the tokens that begin and end documents, and those in texts.

use fastpack_core::config::{Bos, Eos, SpecialInText, TrainOnEos};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::convert::{field, refuse, word, words};

words!(
    /// The choice of trained end-of-turn tokens.
    PyTrainOnEos(TrainOnEos), "special_tokens.train_on_eos"
);

words!(
    /// The handling of control tokens in texts of users and tools.
    PySpecialInText(SpecialInText), "special_tokens.in_text"
);

/// The choice of end-of-text tokens: `"auto"`, or a boolean.
pub(crate) struct PyEos(Eos);

impl<'py> FromPyObject<'_, 'py> for PyEos {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(always) = value.cast::<PyBool>() {
            return Ok(Self(if always.is_true() { Eos::Always } else { Eos::Never }));
        }
        match value.extract::<&str>() {
            Ok("auto") => Ok(Self(Eos::Auto)),
            _ => Err(refuse(value, "special_tokens.eos", "\"auto\", True or False")),
        }
    }
}

/// The choice of beginning-of-text tokens: `"auto"`, `True` or `False`.
pub(crate) struct PyBos(Bos);

impl<'py> FromPyObject<'_, 'py> for PyBos {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(always) = value.cast::<PyBool>() {
            return Ok(Self(if always.is_true() { Bos::Always } else { Bos::Never }));
        }
        match value.extract::<&str>() {
            Ok("auto") => Ok(Self(Bos::Auto)),
            _ => Err(refuse(value, "special_tokens.bos", "\"auto\", True or False")),
        }
    }
}

/// The special tokens of documents, of a `fastpack.SpecialTokens`.
pub(crate) struct PySpecialTokens {
    pub(super) eos: Eos,
    pub(super) bos: Bos,
    pub(super) in_text: SpecialInText,
    pub(super) train_on_eos: Option<TrainOnEos>,
}

impl<'py> FromPyObject<'_, 'py> for PySpecialTokens {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let ends: Option<PyTrainOnEos> = field(&value, "train_on_eos")?;
        Ok(Self {
            eos: field::<PyEos>(&value, "eos")?.0,
            bos: field::<PyBos>(&value, "bos")?.0,
            in_text: field::<PySpecialInText>(&value, "in_text")?.0,
            train_on_eos: ends.map(|ends| ends.0),
        })
    }
}
