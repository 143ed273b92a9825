//! `check_value`: checks the fields of a value such as `Padding(...)` when it is made.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;

use crate::options::output::{PyFormat, PyGroups};
use crate::options::packing::{PyLongDocuments, PyPacking, PyPadding, PyRowOrder};
use crate::options::special_tokens::PySpecialTokens;
use crate::options::stream::{PyRanks, PySelect};

/// Checks the fields of a value of `option`, for those classes of values that do not override `Value.check`.
///
/// Fails with `OptionError` for a wrong field, and with `NotImplementedError` for an option that is not listed here.
#[pyfunction]
pub(crate) fn check_value(option: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match option {
        "order" => value.extract::<PyRowOrder>().map(drop),
        "overlong" => value.extract::<PyLongDocuments>().map(drop),
        "special_tokens" => value.extract::<PySpecialTokens>().map(drop),
        "padding" => value.extract::<PyPadding>().map(drop),
        "strategy" => value.extract::<PyPacking>().map(drop),
        "format" => value.extract::<PyFormat>().map(drop),
        "groups" => value.extract::<PyGroups>().map(drop),
        "ranks" => value.extract::<PyRanks>().map(drop),
        "select" => value.extract::<PySelect>().map(drop),
        _ => {
            let fault = format!(
                "internal error: no check is written for values of `{option}`; override `check` of the class"
            );
            Err(PyNotImplementedError::new_err(fault))
        }
    }
}
