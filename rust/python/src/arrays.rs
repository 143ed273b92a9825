//! [`ready`]: numpy, imported before arrays are made.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::interruptible::without_signals;

/// Imports numpy, so that arrays can be made, once in a process. It is done where an array is about to be made: its import takes 35 ms, and
/// 0.1 s of another core, which jobs have a use for.
///
/// The first array of a process runs some Python, and the crate panics if an exception reaches it there. So the import
/// is made here, where Ctrl-C is an exception like others, and the first array where there are no signals.
pub(crate) fn ready(py: Python<'_>) -> PyResult<()> {
    static READY: PyOnceLock<()> = PyOnceLock::new();
    let prepare = || {
        py.import("numpy")?;
        without_signals(py, |py| drop(Vec::<i32>::new().into_pyarray(py)))
    };
    READY.get_or_try_init(py, prepare).copied()
}
