//! [`PyTransform`]: the caller's `filter`, `map` and that of the objective.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, make_array};
use arrow_pyarrow::PyArrowType;
use fastpack_core::Result;
use fastpack_core::picture::Size;
use fastpack_core::pipeline::Transform;
use pyo3::prelude::*;

use crate::error;
use crate::supervise::Caller;

/// The functions `filter`, `map` and that of the objective over Arrow data, the one that makes the texts of pictures, the
/// identity of the first three, and a warning for each without one.
#[derive(Debug, FromPyObject)]
pub(crate) struct PyTransform(
    Option<Py<PyAny>>,
    Option<Py<PyAny>>,
    Option<Py<PyAny>>,
    Option<Py<PyAny>>,
    Option<String>,
    Vec<String>,
);

impl PyTransform {
    /// Wraps the functions for a job, so that `caller` runs them.
    pub(crate) fn run_by(self, caller: &Caller) -> Transform {
        let Self(filter, map, objective, pictures, identity, warnings) = self;
        let filter = filter.map(|filter| {
            let call = function::<PyArrowType<ArrayData>>("filter", filter, caller);
            Box::new(move |rows| {
                let mask: ArrayRef = make_array(call(rows)?.0);
                Ok(mask
                    .as_boolean_opt()
                    .cloned()
                    .unwrap_or_else(|| BooleanArray::from(Vec::<bool>::new())))
            }) as fastpack_core::pipeline::RowFilter
        });
        let of_batches = |option, given| {
            let call = function::<PyArrowType<RecordBatch>>(option, given, caller);
            move |rows| Ok(call(rows)?.0)
        };
        let map =
            map.map(|map| Box::new(of_batches("map", map)) as fastpack_core::pipeline::Mapping);
        let objective = objective.map(|objective| {
            let made = of_batches("objective.function", objective);
            Box::new(made) as fastpack_core::pipeline::DocumentFunction
        });
        let pictures = pictures.map(|pictures| {
            let (pictures, caller) = (Arc::new(pictures), caller.clone());
            Box::new(move |sizes: &[Size], count: usize| {
                let pictures = Arc::clone(&pictures);
                let sizes: Vec<_> = sizes.iter().map(|size| (size.width, size.height)).collect();
                caller.call(move |py| {
                    let made = pictures.call1(py, (sizes, count))?;
                    let made: Vec<(Option<String>, String)> = made.extract(py)?;
                    Ok(made.into_iter().map(|(text, refused)| text.ok_or(refused)).collect())
                })
            }) as fastpack_core::pipeline::PictureFunction
        });
        Transform { filter, map, objective, pictures, identity, warnings }
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
