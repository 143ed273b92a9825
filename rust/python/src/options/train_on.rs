//! [`PyTrainOn`] and [`PyTurns`]: which tokens are trained, and in how many documents.

use fastpack_core::config::{TrainOn, TrainedTokens, TurnParts, Turns};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::convert::{refuse, word, words};

words!(
    /// The choice of trained tokens, in a word.
    PyTrainOnWord(TrainOn), "train_on"
);

/// The choice of trained tokens: a word, or a `fastpack.TrainOn`.
pub(crate) struct PyTrainOn(pub(super) TrainedTokens);

impl<'py> FromPyObject<'_, 'py> for PyTrainOn {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !value.hasattr("mask_reasoning_content")? {
            if !value.is_instance_of::<PyString>() {
                return Err(refuse(
                    value,
                    "train_on",
                    "a word such as \"assistant\", or a fastpack.TrainOn",
                ));
            }
            return value.extract().map(|PyTrainOnWord(word)| Self(TrainedTokens::Named(word)));
        }
        let switch = |name: &str| value.getattr(name)?.extract();
        Ok(Self(TrainedTokens::of(TurnParts {
            roles: value.getattr("roles")?.extract()?,
            mask_reasoning_content: switch("mask_reasoning_content")?,
            mask_tool_calls: switch("mask_tool_calls")?,
            mask_generation_prompt: switch("mask_generation_prompt")?,
            drop_history_reasoning_content: switch("drop_history_reasoning_content")?,
        })))
    }
}

words!(
    /// The documents that a conversation becomes.
    PyTurns(Turns), "turns"
);
