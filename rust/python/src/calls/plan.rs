//! `fastpack.plan`: packs document lengths, for callers who hold the tokens themselves.

use std::num::NonZeroU32;

use fastpack_core::config::PackOptions;
use fastpack_core::pack::{DocumentLengths, PlanColumns, PlannedLengths};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays;
use crate::error;
use crate::interruptible::{self, Interrupted};
use crate::options::packing::PyPackOptions;

/// The documents of each row, as `fastpack.plan` returns them.
///
/// The arrays are read-only. `offsets`, `members` and `dropped` are int64, so that they can index arrays and
/// tensors. `starts` and `lengths`, in tokens, are int32.
#[pyclass(name = "Plan", frozen, module = "fastpack")]
#[derive(Debug)]
pub(crate) struct PyPlan {
    rows: usize,
    #[pyo3(get)]
    offsets: Py<PyArray1<i64>>,
    #[pyo3(get)]
    members: Py<PyArray1<i64>>,
    #[pyo3(get)]
    starts: Py<PyArray1<i32>>,
    #[pyo3(get)]
    lengths: Py<PyArray1<i32>>,
    #[pyo3(get)]
    dropped: Py<PyArray1<i64>>,
    #[pyo3(get)]
    tokens: u64,
    #[pyo3(get)]
    fill: f64,
    #[pyo3(get)]
    lower_bound: u64,
    #[pyo3(get)]
    max_length: Option<u32>,
}

#[pymethods]
impl PyPlan {
    fn __len__(&self) -> usize {
        self.rows
    }

    fn __repr__(&self) -> String {
        let Self { rows, tokens, fill, lower_bound, .. } = self;
        let max_length = self.max_length.map_or_else(|| "None".to_owned(), |it| it.to_string());
        format!(
            "Plan(rows={rows}, max_length={max_length}, tokens={tokens}, fill={fill:.4}, \
             lower_bound={lower_bound})"
        )
    }
}

impl PyPlan {
    fn new(py: Python<'_>, planned: PlannedLengths, options: &PackOptions) -> Self {
        let PlannedLengths { plan, dropped, lower_bound } = planned;
        let (rows, tokens) = (plan.rows(), plan.tokens());
        let max_length = options.max_length.map(NonZeroU32::get);
        // Without `max_length` each document has a row of its own length.
        let (fill, lower_bound) = match max_length {
            Some(_) => (plan.fill(), lower_bound),
            None => (f64::from(u8::from(rows > 0)), rows as u64),
        };
        let PlanColumns { offsets, members, starts, lengths } = plan.into_columns();
        let numbers = |values: Vec<u32>| fixed(py, values.into_iter().map(i64::from).collect());
        // A cast to a type of the same width reuses the vector's memory.
        let counts =
            |values: Vec<u32>| fixed(py, values.into_iter().map(u32::cast_signed).collect());
        Self {
            rows,
            offsets: fixed(py, offsets.into_iter().map(u64::cast_signed).collect()),
            members: numbers(members),
            starts: counts(starts),
            lengths: counts(lengths),
            dropped: numbers(dropped),
            tokens,
            fill,
            lower_bound,
            max_length,
        }
    }
}

/// Makes a read-only array.
fn fixed<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Py<PyArray1<T>> {
    let array = values.into_pyarray(py);
    array.readwrite().make_nonwriteable();
    array.unbind()
}

/// Packs documents of these lengths.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    lengths: &Bound<'_, PyAny>,
    options: &PyPackOptions,
) -> PyResult<PyPlan> {
    arrays::ready(py)?;
    let lengths: PyReadonlyArray1<'_, i64> = lengths.extract()?;
    let options = options.0.clone();
    let packing = options.clone();
    // The lengths are checked on this thread, in one pass over the caller's array: a copy would take as long.
    let lengths = DocumentLengths::new(lengths.as_slice()?, &options).map_err(error::to_py)?;
    let planned = interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        lengths.plan(&options, control)
    })?;
    Ok(PyPlan::new(py, planned, &packing))
}
