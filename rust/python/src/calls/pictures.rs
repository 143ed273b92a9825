//! Pictures that records hold, found again in training.

use arrow::array::RecordBatch;
use arrow_pyarrow::PyArrowType;
use fastpack_core::pipeline;
use fastpack_core::source::Raw;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// A record as its file has it: a line of JSON, or a table of one row.
#[derive(FromPyObject)]
pub(crate) enum PyRawRecord {
    Line(PyBackedBytes),
    Row(PyArrowType<RecordBatch>),
}

/// The bytes of a picture that a record holds, by its number in the conversation, from 0. `readings` are the options by which
/// the record was read, as a manifest has them.
///
/// Raises:
///     `ValueError`: The record holds no such picture.
#[pyfunction]
pub(crate) fn held_picture(
    record: PyRawRecord,
    readings: Vec<String>,
    number: usize,
) -> PyResult<Vec<u8>> {
    let raw = match &record {
        PyRawRecord::Line(line) => Raw::Json(line),
        PyRawRecord::Row(PyArrowType(batch)) => Raw::Row { batch, row: 0 },
    };
    let found = pipeline::held_picture(raw, &readings, number);
    found.map_err(|fault| PyValueError::new_err(fault.message))
}
