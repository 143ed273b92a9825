//! `check_value`: checks the fields of a value such as `Padding(...)` when it is made.

use fastpack_core::Error;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;

use crate::convert::field;
use crate::error;
use crate::options::PySpecialTokens;
use crate::options::output::{PyGroupSize, PyShardSize};
use crate::options::packing::{PyLongDocuments, PyPacking, PyPadding, PyRowOrder};
use crate::options::stream::{PyLanes, PyMaxTokens, PyMinTokens, PySkip, PyStride, PyTake};

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
        "format" => field::<PyShardSize>(value, "shard_size").map(drop),
        "groups" => field::<Option<PyGroupSize>>(value, "size").map(drop),
        "ranks" => field::<Option<PyLanes>>(value, "lanes").map(drop),
        "select" => check_select(value),
        _ => {
            let fault = format!(
                "internal error: no check is written for values of `{option}`; override `check` of the class"
            );
            Err(PyNotImplementedError::new_err(fault))
        }
    }
}

/// Checks the fields of a `Select`.
fn check_select(value: &Bound<'_, PyAny>) -> PyResult<()> {
    field::<PySkip>(value, "skip")?;
    field::<Option<PyTake>>(value, "take")?;
    field::<Option<PyStride>>(value, "stride")?;
    let least: Option<PyMinTokens> = field(value, "min_tokens")?;
    let most: Option<PyMaxTokens> = field(value, "max_tokens")?;
    match (least, most) {
        (Some(least), Some(most)) if least.0 > most.0 => {
            let reason = format!("must be at most `max_tokens`, {}, not {}", most.0, least.0);
            Err(error::to_py(Error::option("select.min_tokens", reason)))
        }
        _ => Ok(()),
    }
}
