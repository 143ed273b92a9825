//! `reindex`: files written again so that a stream can enter them in the middle.

use std::ffi::OsString;
use std::path::PathBuf;

use fastpack_core::config::RemoteOutput;
use fastpack_core::{pipeline, source};
use pyo3::prelude::*;

use crate::interruptible::{self, Interrupted};
use crate::options::inputs::PyInputs;
use crate::options::storage::PyStorageOptions;

/// A file that was written again: the file that was read, the one that was written, the bytes of both, and the parts of the
/// second.
type Reindexed = (OsString, OsString, u64, u64, u64);

/// Writes files again so that a stream can enter them in the middle. With a URL and its options, `output` is a folder of this call
/// alone, and the files go on from there.
#[pyfunction]
#[pyo3(signature = (inputs, output, remote, progress))]
pub(crate) fn reindex(
    py: Python<'_>,
    inputs: &PyInputs,
    output: PathBuf,
    remote: Option<(String, PyRef<'_, PyStorageOptions>)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Reindexed>> {
    let inputs = inputs.unread();
    let remote = remote.map(|(url, storage)| RemoteOutput { url, storage: storage.0.clone() });
    interruptible::run(py, progress.as_ref(), Interrupted::Join, move |control, caller| {
        let done = pipeline::reindex(&inputs.read_by(caller), &output, remote.as_ref(), control)?;
        let written = |it: source::Reindexed| {
            (it.from.into(), it.to.into(), it.bytes_read, it.bytes_written, it.parts)
        };
        Ok(done.into_iter().map(written).collect::<Vec<_>>())
    })
}
