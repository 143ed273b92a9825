//! [`PyTransform`]: the caller's `filter`, `map` and that of the objective.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, make_array};
use arrow_pyarrow::PyArrowType;
use fastpack_core::Result;
use fastpack_core::picture::Size;
use fastpack_core::pipeline::Transform;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::callers::values_to_json::{JsonValueError, write};
use crate::error;
use crate::interruptible::Caller;

/// A `fastpack.records.filter_and_map.NativeTransform`.
#[derive(Debug, FromPyObject)]
pub(crate) struct PyTransform {
    filter: Option<Py<PyAny>>,
    map: Option<Py<PyAny>>,
    filter_record: Option<Py<PyAny>>,
    map_record: Option<Py<PyAny>>,
    objective: Option<Py<PyAny>>,
    pictures: Option<Py<PyAny>>,
    identity: Option<String>,
    warnings: Vec<String>,
}

impl PyTransform {
    /// Wraps the functions for a job, so that `caller` runs them.
    pub(crate) fn run_by(self, caller: &Caller) -> Transform {
        let of_batches = |option, callable| {
            let call = function::<PyArrowType<RecordBatch>>(option, callable, caller);
            move |rows| Ok(call(rows)?.0)
        };
        Transform {
            filter: self.filter.map(|filter| {
                let call = function::<PyArrowType<ArrayData>>("filter", filter, caller);
                Box::new(move |rows| {
                    let mask: ArrayRef = make_array(call(rows)?.0);
                    Ok(mask
                        .as_boolean_opt()
                        .cloned()
                        .unwrap_or_else(|| BooleanArray::from(Vec::<bool>::new())))
                }) as fastpack_core::pipeline::RowFilter
            }),
            map: self
                .map
                .map(|map| Box::new(of_batches("map", map)) as fastpack_core::pipeline::RowMapping),
            filter_record: self.filter_record.map(|filter| {
                let call = function_of_records(filter, caller, |answers| answers.extract());
                Box::new(call) as fastpack_core::pipeline::RecordFilter
            }),
            map_record: self.map_record.map(|map| {
                let read = |answers: Bound<'_, PyAny>| answers.try_iter()?.map(json_of).collect();
                Box::new(function_of_records(map, caller, read))
                    as fastpack_core::pipeline::RecordMapping
            }),
            objective: self.objective.map(|objective| {
                let call = of_batches("objective.function", objective);
                Box::new(call) as fastpack_core::pipeline::DocumentFunction
            }),
            pictures: self.pictures.map(|pictures| {
                let (pictures, caller) = (Arc::new(pictures), caller.clone());
                Box::new(move |sizes: &[Size], count: usize| {
                    let pictures = Arc::clone(&pictures);
                    let sizes: Vec<_> =
                        sizes.iter().map(|size| (size.width, size.height)).collect();
                    caller.call(move |py| {
                        let answer = pictures.call1(py, (sizes, count))?;
                        let answers: Vec<(Option<String>, String)> = answer.extract(py)?;
                        Ok(answers.into_iter().map(|(text, refused)| text.ok_or(refused)).collect())
                    })
                }) as fastpack_core::pipeline::PictureFunction
            }),
            identity: self.identity,
            warnings: self.warnings,
        }
    }
}

/// Wraps a function of the JSON of some records, whose answer `read` reads.
fn function_of_records<T: Send + 'static>(
    function: Py<PyAny>,
    caller: &Caller,
    read: fn(Bound<'_, PyAny>) -> PyResult<T>,
) -> impl Fn(Vec<Vec<u8>>) -> Result<T> + Send + Sync + 'static {
    let (function, caller) = (Arc::new(function), caller.clone());
    move |records| {
        let function = Arc::clone(&function);
        caller.call(move |py| {
            let records = records.iter().map(|json| PyBytes::new(py, json));
            read(function.bind(py).call1((PyList::new(py, records.collect::<Vec<_>>())?,))?)
        })
    }
}

/// The JSON of a record that a function made, or what of it JSON cannot hold.
fn json_of(record: PyResult<Bound<'_, PyAny>>) -> PyResult<std::result::Result<Vec<u8>, String>> {
    let mut bytes = Vec::new();
    match write(&record?, &mut bytes) {
        Ok(()) => Ok(Ok(bytes)),
        Err(JsonValueError::Unwritable(message)) => Ok(Err(message)),
        Err(JsonValueError::Raised(raised)) => Err(raised),
    }
}

/// Wraps a function of one batch, given as `option`.
fn function<T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr> + Send + 'static>(
    option: &'static str,
    function: Py<PyAny>,
    caller: &Caller,
) -> impl Fn(RecordBatch) -> Result<T> + Send + Sync + 'static {
    let (function, caller) = (Arc::new(function), caller.clone());
    move |rows| {
        let function = Arc::clone(&function);
        caller.call(move |py| {
            function.call1(py, (PyArrowType(rows),))?.extract(py).map_err(|refused: PyErr| {
                let reason = format!("must return what Arrow asks for: {}", refused.value(py));
                error::option(py, option, &reason)
            })
        })
    }
}
