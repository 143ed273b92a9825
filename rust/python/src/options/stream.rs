//! The values of a stream: `Select`, `Weights` and `Ranks`.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use fastpack_core::Error;
use fastpack_core::stream::{
    MOST_LANES, MixUnit, OnEnd, OnExhausted, RecordNumbers, Scalar, SelectNumber, WantedValues,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFrozenSet, PyInt, PyList, PySet, PyTuple};

use crate::callers::values_to_json::has_list;
use crate::convert::{counts, field, refuse, word, words};
use crate::error;

/// The records that a stream takes, of a `fastpack.Select`.
pub(crate) struct PySelect {
    pub(crate) fields: Vec<(String, WantedValues)>,
    pub(crate) min_tokens: Option<u32>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) numbers: RecordNumbers,
}

impl<'py> FromPyObject<'_, 'py> for PySelect {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let take: Option<PyTake> = field(&value, "take")?;
        let stride: Option<PyStride> = field(&value, "stride")?;
        let least: Option<PyMinTokens> = field(&value, "min_tokens")?;
        let most: Option<PyMaxTokens> = field(&value, "max_tokens")?;
        let (min_tokens, max_tokens) = (least.map(|it| it.0.get()), most.map(|it| it.0.get()));
        if let Some((least, most)) = min_tokens.zip(max_tokens).filter(|(least, most)| least > most)
        {
            let reason = format!("must be at most `max_tokens`, {most}, not {least}");
            return Err(error::to_py(Error::option("select.min_tokens", reason)));
        }
        Ok(Self {
            fields: field::<PyWhere>(&value, "where")?.0,
            min_tokens,
            max_tokens,
            numbers: RecordNumbers {
                skip: field::<PySkip>(&value, "skip")?.0,
                take: take.map(|it| it.0),
                stride: stride.map(|it| it.0).filter(|it| it.get() > 1),
            },
        })
    }
}

/// The unit of the weights and the end of a source, of the `fastpack.Weights` of a stream.
pub(crate) struct PyMixture {
    pub(crate) unit: MixUnit,
    pub(crate) on_exhausted: OnExhausted,
}

impl<'py> FromPyObject<'_, 'py> for PyMixture {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            unit: field::<PyWeightUnit>(&value, "unit")?.0,
            on_exhausted: field::<PyOnExhausted>(&value, "on_exhausted")?.0,
        })
    }
}

/// The ranks that share a stream, of a `fastpack.Ranks`.
pub(crate) struct PyRanks {
    pub(crate) lanes: Option<NonZeroUsize>,
    pub(crate) on_end: Option<OnEnd>,
}

impl<'py> FromPyObject<'_, 'py> for PyRanks {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let lanes: Option<PyLanes> = field(&value, "lanes")?;
        let on_end: Option<PyOnEnd> = field(&value, "on_end")?;
        Ok(Self { lanes: lanes.map(|lanes| lanes.0), on_end: on_end.map(|end| end.0) })
    }
}

words!(
    /// The unit of the weights of sources: tokens, documents or rows.
    PyWeightUnit(MixUnit), "weights.unit"
);
words!(
    /// The behaviour of a lane that has read a source to its end.
    PyOnExhausted(OnExhausted), "weights.on_exhausted"
);
words!(
    /// The rows of a step in which some lanes have none left.
    PyOnEnd(OnEnd), "ranks.on_end"
);
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
struct PySkip(u64);

impl<'py> FromPyObject<'_, 'py> for PySkip {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number.map(Self).ok_or_else(|| refuse(value, "select.skip", "a whole number from 0"))
    }
}

/// The wanted values of fields, in the order of the names of the fields.
struct PyWhere(Vec<(String, WantedValues)>);

impl<'py> FromPyObject<'_, 'py> for PyWhere {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self(Vec::new()));
        }
        let refused = || {
            let wanted =
                "a dict from the names of fields to what they must be, such as {\"lang\": \"en\"}";
            refuse(value, "select.where", wanted)
        };
        let dict = value.cast::<PyDict>().map_err(|_| refused())?;
        let mut fields = Vec::with_capacity(dict.len());
        for (name, wanted) in dict.iter() {
            let name = name.extract::<String>().map_err(|_| refused())?;
            fields.push((name, wanted.extract::<PyWanted>()?.0));
        }
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self(fields))
    }
}

/// The wanted values of a field: a value, several in a list or set, or a tuple of the least and the most.
struct PyWanted(WantedValues);

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
fn whole_or_real(value: &Bound<'_, PyAny>) -> Option<SelectNumber> {
    if let Some(plain) = of_library(value) {
        return whole_or_real(&plain);
    }
    if value.is_instance_of::<PyInt>() {
        // Of a subclass such as an enumeration, the number.
        let digits = value.py().get_type::<PyInt>().call_method1("__repr__", (value,)).ok()?;
        return SelectNumber::integer(digits.extract().ok()?);
    }
    value.extract::<f64>().ok().map(SelectNumber::from)
}
