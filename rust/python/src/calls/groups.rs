//! `status`, `list_groups` and `pack_group`: the state of a job in a folder, and its groups one by one.

use std::path::PathBuf;

use fastpack_core::config::RemoteOutput;
use fastpack_core::pipeline;
use pyo3::prelude::*;

use crate::callers::transform::PyTransform;
use crate::calls::pretrained::PyPretrained;
use crate::interruptible::{self, Interrupted};
use crate::job::{JobParts, PyChatTemplate};
use crate::options::PyOptions;
use crate::options::inputs::PyInputs;
use crate::options::output::PyOutput;
use crate::options::storage::PyStorageOptions;
use crate::report::PyReport;

/// The state of the job in a folder, as JSON. With options of remote storage, the folder is one of a bucket.
#[pyfunction]
#[pyo3(signature = (folder, storage))]
pub(crate) fn status(
    py: Python<'_>,
    folder: PathBuf,
    storage: Option<&PyStorageOptions>,
) -> PyResult<String> {
    let url = folder.to_string_lossy().into_owned();
    let remote = storage.map(|storage| RemoteOutput { url, storage: storage.0.clone() });
    interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        Ok(pipeline::status(&folder, remote.as_ref(), control)?.to_json())
    })
}

/// The bytes of each group of a job, and the names of its steps.
#[pyfunction]
pub(crate) fn list_groups(
    py: Python<'_>,
    inputs: &PyInputs,
    output: &PyOutput,
) -> PyResult<(Vec<u64>, Vec<&'static str>)> {
    let (inputs, output) = (inputs.unread(), output.0.clone());
    interruptible::run(py, None, Interrupted::Abandon, move |control, caller| {
        pipeline::list_groups(&inputs.read_by(caller), &output, control)
    })
}

/// Takes one group of a job through one step.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn pack_group(
    py: Python<'_>,
    inputs: &PyInputs,
    output: &PyOutput,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    group: u64,
    step: usize,
) -> PyResult<PyReport> {
    let parts = JobParts::new(options, tokenizer, chat_template, transform);
    let (inputs, output) = (inputs.unread(), output.0.clone());
    interruptible::run(py, None, Interrupted::Join, move |control, caller| {
        let (job, inputs) = (parts.job(caller)?, inputs.read_by(caller));
        pipeline::pack_group(job, &inputs, &output, group, step, control)
    })
    .map(PyReport)
}
