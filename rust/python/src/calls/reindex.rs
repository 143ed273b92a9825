//! `reindex`: files written again so that a stream can enter them in the middle.

use std::ffi::OsString;
use std::path::PathBuf;

use fastpack_core::source;
use pyo3::prelude::*;

use crate::options::inputs::PyInputs;
use crate::supervise::{self, Interrupted};

/// A file that was written again: the file that was read, the one that was written, the bytes of both, and the parts of the
/// second.
type Reindexed = (OsString, OsString, u64, u64, u64);

/// Writes files again so that a stream can enter them in the middle.
#[pyfunction]
pub(crate) fn reindex(
    py: Python<'_>,
    inputs: &PyInputs,
    output: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Reindexed>> {
    let inputs = inputs.unread();
    supervise::run(py, progress.as_ref(), Interrupted::Join, move |control, caller| {
        let done = source::reindex(&inputs.read_by(caller), &output, control)?;
        let written = |it: source::Reindexed| {
            (it.from.into(), it.to.into(), it.bytes_read, it.bytes_written, it.parts)
        };
        Ok(done.into_iter().map(written).collect::<Vec<_>>())
    })
}
