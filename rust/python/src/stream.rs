//! `PackStream`: tables, while the core runs ahead of the loop that takes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow_pyarrow::{PyArrowType, Table};
use fastpack_core::stream::{StreamOptions, stream};
use fastpack_core::{Control, Report};
use pyo3::prelude::*;

use crate::arrow::batch;
use crate::inputs::PyInputs;
use crate::job::{Parts, PyChatTemplate};
use crate::options::{PyBatchSize, PyOpenPacks, PyOptions};
use crate::pretrained::PyPretrained;
use crate::report::PyReport;
use crate::supervise::{Interrupted, Shared, Task};
use crate::transform::PyTransform;

/// Tables that wait to be taken: one to take at once, and one while it is taken.
const AHEAD: usize = 2;

/// Packed rows, a table at a time. Dropping it stops and joins the threads behind it.
#[pyclass(name = "PackStream", module = "fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyPackStream {
    task: Shared<RecordBatch>,
    control: Arc<Control>,
    closed: AtomicBool,
    report: Arc<OnceLock<Report>>,
    progress: Option<Py<PyAny>>,
}

#[pymethods]
impl PyPackStream {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the parts of a job")]
    fn new(
        inputs: &PyInputs,
        options: &PyOptions,
        tokenizer: Option<&PyPretrained>,
        chat_template: PyChatTemplate,
        transform: PyTransform,
        batch_size: PyBatchSize,
        open_packs: PyOpenPacks,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let parts = Parts::new(options, tokenizer, chat_template, transform);
        let inputs = inputs.0.clone();
        let packing = StreamOptions { batch_rows: batch_size.0, open_packs: open_packs.0 };
        let report = Arc::new(OnceLock::new());
        let reported = Arc::clone(&report);
        let task = Task::spawn(AHEAD, Interrupted::Abandon, move |control, caller, emit| {
            let ended = stream(&parts.job(caller)?, &inputs, packing, control, emit)?;
            reported.set(ended).expect("a job ends once");
            Ok(())
        })?;
        let control = task.control();
        let closed = AtomicBool::new(false);
        Ok(Self { task: Shared::new(task), control, closed, report, progress })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyArrowType<Table>>> {
        let mut task = self.task.turn(py)?;
        if self.closed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match task.next(py, self.progress.as_ref()) {
            Ok(Some(rows)) => batch(rows).map(Some),
            Err(_) if self.closed.load(Ordering::Relaxed) => Ok(None),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stops the threads behind the stream and waits for their end; no table comes after it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.task.refuse_own_thread(py)?;
        self.closed.store(true, Ordering::Relaxed);
        self.control.cancel();
        self.task.turn(py)?.close(py);
        Ok(())
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Py<PyAny>>,
        exc_value: Option<Py<PyAny>>,
        traceback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    /// What the whole stream came to; nothing before its end.
    #[getter]
    fn report(&self) -> Option<PyReport> {
        self.report.get().cloned().map(PyReport)
    }
}
