//! `pack_files`, `pack_dir`, `pack_records`, `write_records` and `repack`: the calls that pack a whole input.

use std::path::PathBuf;
use std::sync::Arc;

use fastpack_core::objective::ObjectiveVocabulary;
use fastpack_core::pipeline;
use fastpack_core::sink::MemoryTables;
use pyo3::prelude::*;

use crate::arrow::{PyTables, reported};
use crate::callers::records::PyRecords;
use crate::callers::transform::PyTransform;
use crate::calls::pictures::PyRemotePictures;
use crate::calls::pretrained::PyPretrained;
use crate::interruptible::{self, Interrupted};
use crate::job::{JobParts, PyChatTemplate};
use crate::options::PyOptions;
use crate::options::inputs::{PyInputs, PySource};
use crate::options::output::{PyOutput, PyValidation};
use crate::report::PyReport;

/// Packs files into tables in memory.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn pack_files(
    py: Python<'_>,
    inputs: &PyInputs,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    validation: Option<&PyValidation>,
    cache_dir: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyTables> {
    let parts = JobParts::new(options, tokenizer, chat_template, transform);
    let (inputs, validation) = (inputs.unread(), validation.map(|it| it.0));
    let interrupted = if cache_dir.is_some() { Interrupted::Join } else { Interrupted::Abandon };
    let (tables, report) =
        interruptible::run(py, progress.as_ref(), interrupted, move |control, caller| {
            let (job, cache, mut tables) =
                (parts.job(caller)?, cache_dir.as_deref(), MemoryTables::default());
            let inputs = inputs.read_by(caller);
            let report =
                pipeline::pack_files(job, &inputs, validation, cache, control, &mut tables)?;
            Ok((tables, report))
        })?;
    reported(tables, report)
}

/// Packs files into a folder.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn pack_dir(
    py: Python<'_>,
    inputs: &PyInputs,
    output: &PyOutput,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    cache_dir: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyReport> {
    let parts = JobParts::new(options, tokenizer, chat_template, transform);
    let (inputs, output, appending) = (inputs.unread(), output.0.clone(), output.1);
    interruptible::run(py, progress.as_ref(), Interrupted::Join, move |control, caller| {
        let (job, inputs) = (parts.job(caller)?, inputs.read_by(caller));
        if let Some(appending) = appending {
            return pipeline::append_dir(job, &inputs, &output, appending, control);
        }
        pipeline::pack_dir(job, &inputs, &output, cache_dir.as_deref(), control)
    })
    .map(PyReport)
}

/// Packs the kept tokens of a folder into another folder.
#[pyfunction]
pub(crate) fn repack(
    py: Python<'_>,
    source: PathBuf,
    output: &PyOutput,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    pictures: Option<&PyRemotePictures>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyReport> {
    let (output, options) = (output.0.clone(), options.0.clone());
    let pretrained = tokenizer.map(|it| Arc::clone(&it.pretrained));
    let pictures = pictures.map(PyRemotePictures::parts);
    interruptible::run(py, progress.as_ref(), Interrupted::Join, move |control, caller| {
        let vocabulary = pretrained.as_ref().map_or_else(ObjectiveVocabulary::default, |it| {
            ObjectiveVocabulary { tokenizer: Some(&it.tokenizer), named: &it.special_tokens }
        });
        let pictures = pictures.map(|pictures| Arc::new(pictures.opened(caller)));
        pipeline::repack(&options, &source, &output, vocabulary, pictures, control)
    })
    .map(PyReport)
}

/// Packs records in memory into tables in memory.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn pack_records(
    py: Python<'_>,
    records: &PyRecords,
    reading: &PySource,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    validation: Option<&PyValidation>,
    cache_dir: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyTables> {
    let parts = JobParts::new(options, tokenizer, chat_template, transform);
    let (records, reading) = (records.clone(), reading.0.reading.clone());
    let validation = validation.map(|it| it.0);
    let interrupted = if cache_dir.is_some() { Interrupted::Join } else { Interrupted::Abandon };
    let (tables, report) =
        interruptible::run(py, progress.as_ref(), interrupted, move |control, caller| {
            let (job, memory) = (parts.job(caller)?, records.into_memory(caller));
            let (cache, mut tables) = (cache_dir.as_deref(), MemoryTables::default());
            let report = pipeline::pack_memory(
                job,
                memory,
                reading,
                validation,
                cache,
                control,
                &mut tables,
            )?;
            Ok((tables, report))
        })?;
    reported(tables, report)
}

/// Packs records in memory into a folder.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn write_records(
    py: Python<'_>,
    records: &PyRecords,
    reading: &PySource,
    output: &PyOutput,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    cache_dir: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyReport> {
    let parts = JobParts::new(options, tokenizer, chat_template, transform);
    let (records, reading) = (records.clone(), reading.0.reading.clone());
    let output = output.0.clone();
    interruptible::run(py, progress.as_ref(), Interrupted::Join, move |control, caller| {
        let memory = records.into_memory(caller);
        let job = parts.job(caller)?;
        pipeline::write_memory(job, memory, reading, &output, cache_dir.as_deref(), control)
    })
    .map(PyReport)
}
