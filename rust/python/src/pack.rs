//! `pack_files`, `pack_dir`, `pack_records`, `pack_table` and `repack`: everything at once.

use std::path::PathBuf;

use arrow::pyarrow::{PyArrowType, Table};
use fastpack_core::pipeline;
use pyo3::prelude::*;

use crate::arrow::reported;
use crate::inputs::{PyInputs, PySource};
use crate::job::{Parts, PyChatTemplate};
use crate::options::{PyOptions, PyOutput};
use crate::pretrained::PyPretrained;
use crate::records::PyRecords;
use crate::report::PyReport;
use crate::supervise;
use crate::transform::PyTransform;

/// Packs files into a table.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn pack_files(
    py: Python<'_>,
    inputs: &PyInputs,
    options: &PyOptions,
    tokenizer: &PyPretrained,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    cache_dir: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyArrowType<Table>> {
    let parts = Parts::new(options, tokenizer, chat_template, transform);
    let inputs = inputs.0.clone();
    let (batches, report) = supervise::run(py, progress.as_ref(), move |control, caller| {
        let mut batches = Vec::new();
        let (job, cache) = (parts.job(caller)?, cache_dir.as_deref());
        let report = pipeline::pack_files(job, &inputs, cache, control, &mut |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok((batches, report))
    })?;
    reported(batches, &options.0.columns, report)
}

/// Packs files into files.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn pack_dir(
    py: Python<'_>,
    inputs: &PyInputs,
    output: &PyOutput,
    options: &PyOptions,
    tokenizer: &PyPretrained,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyReport> {
    let parts = Parts::new(options, tokenizer, chat_template, transform);
    let (inputs, output) = (inputs.0.clone(), output.0.clone());
    supervise::run(py, progress.as_ref(), move |control, caller| {
        pipeline::pack_dir(parts.job(caller)?, &inputs, &output, control)
    })
    .map(PyReport)
}

/// Packs the tokens that a folder keeps into files.
#[pyfunction]
pub(crate) fn repack(
    py: Python<'_>,
    source: PathBuf,
    output: &PyOutput,
    options: &PyOptions,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyReport> {
    let (output, options) = (output.0.clone(), options.0.clone());
    supervise::run(py, progress.as_ref(), move |control, _| {
        pipeline::repack(&options, &source, &output, control)
    })
    .map(PyReport)
}

/// Packs records that are in memory.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn pack_records(
    py: Python<'_>,
    records: &PyRecords,
    reading: &PySource,
    options: &PyOptions,
    tokenizer: &PyPretrained,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyArrowType<Table>> {
    let parts = Parts::new(options, tokenizer, chat_template, transform);
    let (records, reading) = (records.clone(), reading.0.reading.clone());
    let (batches, report) = supervise::run(py, progress.as_ref(), move |control, caller| {
        let mut batches = Vec::new();
        let memory = records.given_by(caller);
        let report =
            pipeline::pack_memory(&parts.job(caller)?, memory, reading, control, &mut |batch| {
                batches.push(batch);
                Ok(())
            })?;
        Ok((batches, report))
    })?;
    reported(batches, &options.0.columns, report)
}

/// Packs rows that are tokenized already.
#[pyfunction]
pub(crate) fn pack_table(
    py: Python<'_>,
    rows: PyArrowType<Table>,
    options: &PyOptions,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyArrowType<Table>> {
    let (rows, _) = rows.0.into_inner();
    let core_options = options.0.clone();
    let (batches, report) = supervise::run(py, progress.as_ref(), move |control, _| {
        let mut batches = Vec::new();
        let report = pipeline::pack_table(&core_options, &rows, control, &mut |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok((batches, report))
    })?;
    reported(batches, &options.0.columns, report)
}
