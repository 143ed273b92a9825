//! `scan`: reads files and plans rows, without making them.

use std::num::NonZeroU32;

use fastpack_core::pipeline;
use pyo3::prelude::*;

use crate::callers::transform::PyTransform;
use crate::calls::pretrained::PyPretrained;
use crate::interruptible::{self, Interrupted};
use crate::job::{JobParts, PyChatTemplate};
use crate::options::inputs::PyInputs;
use crate::options::{PyOptions, PySample};

/// Reads files, plans rows of each of `max_lengths`, and returns the report as JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn scan(
    py: Python<'_>,
    inputs: &PyInputs,
    max_lengths: Vec<NonZeroU32>,
    sample: Option<PySample>,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let parts = JobParts::new(options, tokenizer, chat_template, transform);
    let (inputs, sample) = (inputs.unread(), sample.map(|sample| sample.0));
    interruptible::run(py, progress.as_ref(), Interrupted::Abandon, move |control, caller| {
        let inputs = inputs.read_by(caller);
        Ok(pipeline::scan(&parts.job(caller)?, &inputs, &max_lengths, sample, control)?.to_json())
    })
}
