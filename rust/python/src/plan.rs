//! `fastpack.plan`: packing alone, for callers who keep the tokens themselves.

use fastpack_core::pack::{PlannedLengths, plan_lengths};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::pack_options::PyPackOptions;
use crate::supervise;

/// Which documents share a row: what `fastpack.plan` returns.
///
/// The arrays cannot be written to. `offsets` and `members` are int64, so that they index arrays and tensors
/// as they are; what counts tokens is int32.
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
    max_length: u32,
}

#[pymethods]
impl PyPlan {
    fn __len__(&self) -> usize {
        self.rows
    }

    fn __repr__(&self) -> String {
        let Self { rows, tokens, fill, lower_bound, max_length, .. } = self;
        format!(
            "Plan(rows={rows}, max_length={max_length}, tokens={tokens}, fill={fill:.4}, \
             lower_bound={lower_bound})"
        )
    }
}

impl PyPlan {
    fn new(py: Python<'_>, planned: &PlannedLengths) -> Self {
        let PlannedLengths { plan, dropped, lower_bound } = planned;
        let numbers = |values: &[u32]| fixed(py, values.iter().copied().map(i64::from).collect());
        let tokens =
            |values: &[u32]| fixed(py, values.iter().map(|value| value.cast_signed()).collect());
        Self {
            rows: plan.rows(),
            offsets: fixed(py, plan.offsets().iter().map(|offset| offset.cast_signed()).collect()),
            members: numbers(plan.members()),
            starts: tokens(plan.starts()),
            lengths: tokens(plan.lengths()),
            dropped: numbers(dropped),
            tokens: plan.tokens(),
            fill: plan.fill(),
            lower_bound: *lower_bound,
            max_length: plan.max_length().get(),
        }
    }
}

/// An array that cannot be written to.
fn fixed<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Py<PyArray1<T>> {
    let array = values.into_pyarray(py);
    array.readwrite().make_nonwriteable();
    array.unbind()
}

/// Packs documents of these lengths.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    lengths: PyReadonlyArray1<'_, i64>,
    options: &PyPackOptions,
) -> PyResult<PyPlan> {
    let lengths = lengths.as_array().to_vec();
    let options = options.0.clone();
    let planned =
        supervise::run(py, None, move |control, _| plan_lengths(&lengths, &options, control))?;
    Ok(PyPlan::new(py, &planned))
}
