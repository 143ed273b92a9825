//! The fields of the values of a stream: `Select` and `Ranks`.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use fastpack_core::stream::{MOST_LANES, Number, Scalar, WantedValues};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFrozenSet, PyInt, PyList, PySet, PyTuple};

use crate::callers::written::has_list;
use crate::convert::{counts, refuse};

counts!(
    /// The number of lanes of a run.
    PyLanes(NonZeroUsize), "ranks.lanes", MOST_LANES
);
counts!(
    /// The least tokens of a document.
    PyMinTokens(NonZeroU32), "select.min_tokens", u32::MAX
);
counts!(
    /// The most tokens of a document.
    PyMaxTokens(NonZeroU32), "select.max_tokens", u32::MAX
);

counts!(
    /// The number of records that are taken.
    PyTake(NonZeroU64), "select.take", u64::MAX
);
counts!(
    /// The distance of the records that are taken.
    PyStride(NonZeroU64), "select.stride", u64::MAX
);

/// The number of records that are left out at the beginning.
pub(crate) struct PySkip(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for PySkip {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number.map(Self).ok_or_else(|| refuse(value, "select.skip", "a whole number from 0"))
    }
}

/// The wanted values of a field: a value, several in a list or set, or a tuple of the least and the most.
pub(crate) struct PyWanted(pub(crate) WantedValues);

impl<'py> FromPyObject<'_, 'py> for PyWanted {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let wanted = "a value, a list of values, or a tuple of the least and the most number, of which one may be None";
        let refused = || refuse(value, "select.where", wanted);
        if value.is_instance_of::<PyTuple>() {
            let ends: (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                value.extract().map_err(|_| refused())?;
            let end = |end: &Bound<'_, PyAny>| {
                if end.is_none() {
                    Ok(None)
                } else {
                    whole_or_real(end).map(Some).ok_or_else(refused)
                }
            };
            return Ok(Self(WantedValues::Between(end(&ends.0)?, end(&ends.1)?)));
        }
        let several = value.is_instance_of::<PyList>()
            || value.is_instance_of::<PySet>()
            || value.is_instance_of::<PyFrozenSet>();
        let values = if several {
            value.try_iter()?.map(|it| scalar(&it?).ok_or_else(refused)).collect::<PyResult<_>>()?
        } else {
            vec![scalar(&value).ok_or_else(refused)?]
        };
        Ok(Self(WantedValues::OneOf(values)))
    }
}

/// A value of a field; `None` for a value that is no scalar.
fn scalar(value: &Bound<'_, PyAny>) -> Option<Scalar> {
    if value.is_none() {
        return Some(Scalar::Null);
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Some(Scalar::Bool(truth.is_true()));
    }
    if let Ok(text) = value.extract() {
        return Some(Scalar::Text(text));
    }
    if let Some(plain) = of_library(value) {
        return scalar(&plain);
    }
    whole_or_real(value).map(Scalar::Number)
}

/// The value of a scalar of a library such as numpy, as Python has it.
fn of_library<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let plain = if has_list(value) { value.call_method0("tolist").ok()? } else { return None };
    (!has_list(&plain)).then_some(plain)
}

/// A number, as it is.
fn whole_or_real(value: &Bound<'_, PyAny>) -> Option<Number> {
    if let Some(plain) = of_library(value) {
        return whole_or_real(&plain);
    }
    if value.is_instance_of::<PyInt>() {
        // Of a subclass such as an enumeration, the number.
        let digits = value.py().get_type::<PyInt>().call_method1("__repr__", (value,)).ok()?;
        return Number::integer(digits.extract().ok()?);
    }
    value.extract::<f64>().ok().map(Number::from)
}
