//! `check_value`: refuses a value that holds options of its own, where it is made.

use pyo3::prelude::*;

use crate::error;
use crate::options::PySpecialTokens;
use crate::options::packing::{PyLongDocuments, PyPacking, PyPadding, PyRowOrder};

/// Refuses what a field of a value of `option` cannot be.
#[pyfunction]
pub(crate) fn check_value(option: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match option {
        "order" => value.extract::<PyRowOrder>().map(drop),
        "overlong" => value.extract::<PyLongDocuments>().map(drop),
        "special_tokens" => value.extract::<PySpecialTokens>().map(drop),
        "padding" => value.extract::<PyPadding>().map(drop),
        "strategy" => value.extract::<PyPacking>().map(drop),
        _ => Err(error::option(value.py(), option, "takes no value with options of its own")),
    }
}
