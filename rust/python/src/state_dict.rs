//! Sealed states of Python objects, as JSON.

use fastpack_core::util::sealed_state_dict::{open_text, seal_text};
use pyo3::prelude::*;

use crate::error;

/// The option that takes a state.
const OPTION: &str = "state_dict";

/// The JSON object `state` with the kind of object that it belongs to and a hash of its values.
#[pyfunction]
pub(crate) fn seal_state(kind: &str, state: &str) -> PyResult<String> {
    seal_text(kind, state, OPTION).map_err(error::to_py)
}

/// The JSON object that `seal_state` sealed; refuses one of another kind, and one that was changed.
#[pyfunction]
pub(crate) fn open_state(kind: &str, state: &str) -> PyResult<String> {
    open_text(kind, state, OPTION).map_err(error::to_py)
}
