//! `StreamTables`: an iterator over the tables of a stream, which the core fills in the background.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow_pyarrow::{PyArrowType, Table};
use fastpack_core::stream::{MOST_LANES, MixUnit, OnExhausted, State, StreamOptions, stream};
use fastpack_core::{Control, Report};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::arrow::batch;
use crate::convert::{counts, refuse, switches, word, words};
use crate::error;
use crate::inputs::PyInputs;
use crate::job::{Parts, PyChatTemplate};
use crate::options::{PyBatchSize, PyOpenPacks, PyOptions};
use crate::pretrained::PyPretrained;
use crate::report::PyReport;
use crate::supervise::{Interrupted, Shared, Task};
use crate::transform::PyTransform;

/// The tables that wait to be taken: the next one, and one that is made while the next is taken.
const AHEAD: usize = 2;

switches!(
    /// Whether records are read in a random order, which the seed decides.
    PyShuffled, "shuffle"
);
counts!(
    /// The number of times that the input is read.
    PyEpochs(NonZeroU64), "epochs", u64::MAX
);
counts!(
    /// The number of lanes of a run.
    PyLanes(NonZeroUsize), "lanes", MOST_LANES
);
counts!(
    /// The number of ranks that share the rows.
    PyWorldSize(NonZeroUsize), "world_size", MOST_LANES
);
counts!(
    /// The most tables of a run.
    PyMaxSteps(NonZeroU64), "max_steps", u64::MAX
);

words!(
    /// The unit of the weights of sources: tokens or documents.
    PyWeightUnit(MixUnit), "weight_unit"
);
words!(
    /// The behaviour of a lane that has read a source to its end.
    PyOnExhausted(OnExhausted), "on_exhausted"
);

/// The number of a rank.
struct PyRank(usize);

impl<'py> FromPyObject<'_, 'py> for PyRank {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number.map(Self).ok_or_else(|| refuse(value, "rank", "a whole number from 0"))
    }
}

/// The options of a stream: batches, lanes, ranks and the mix of sources.
#[pyclass(name = "StreamOptions", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyStreamOptions(StreamOptions);

#[pymethods]
impl PyStreamOptions {
    #[new]
    #[pyo3(signature = (*, batch_size, open_packs, shuffle, epochs, lanes, rank, world_size, rank_source, max_steps, names, weights, weight_unit, on_exhausted))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
    fn new(
        batch_size: PyBatchSize,
        open_packs: PyOpenPacks,
        shuffle: PyShuffled,
        epochs: Option<PyEpochs>,
        lanes: Option<PyLanes>,
        rank: PyRank,
        world_size: PyWorldSize,
        rank_source: Option<String>,
        max_steps: Option<PyMaxSteps>,
        names: Vec<String>,
        weights: Vec<(u64, Vec<f64>)>,
        weight_unit: PyWeightUnit,
        on_exhausted: PyOnExhausted,
    ) -> PyResult<Self> {
        let options = StreamOptions {
            batch_rows: batch_size.0,
            open_packs: open_packs.0,
            shuffle: shuffle.0,
            epochs: epochs.map(|epochs| epochs.0),
            lanes: lanes.map(|lanes| lanes.0),
            rank: rank.0,
            world_size: world_size.0,
            rank_source,
            max_steps: max_steps.map(|steps| steps.0.get()),
            strict: true,
            names,
            weights,
            weight_unit: weight_unit.0,
            on_exhausted: on_exhausted.0,
        };
        options.validate().map_err(error::to_py)?;
        Ok(Self(options))
    }
}

/// Refuses a text that is not the state of a stream.
#[pyfunction]
pub(crate) fn check_state(state: &str) -> PyResult<()> {
    State::from_json(state).map(drop).map_err(error::to_py)
}

/// Joins the states of all ranks of a run.
#[pyfunction]
pub(crate) fn merge_states(states: Vec<String>) -> PyResult<String> {
    let states = states.iter().map(|text| State::from_json(text)).collect::<Result<Vec<_>, _>>();
    let merged = states.and_then(|states| fastpack_core::stream::merge_states(&states));
    merged.map(|state| state.to_json()).map_err(error::to_py)
}

/// An iterator over tables of packed rows. Dropping it stops and joins its threads.
#[pyclass(name = "StreamTables", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyStreamTables {
    task: Shared<RecordBatch>,
    control: Arc<Control>,
    closed: AtomicBool,
    report: Arc<OnceLock<Report>>,
    progress: Option<Py<PyAny>>,
}

#[pymethods]
impl PyStreamTables {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the parts of a job")]
    fn new(
        inputs: &PyInputs,
        options: &PyOptions,
        tokenizer: Option<&PyPretrained>,
        chat_template: PyChatTemplate,
        transform: PyTransform,
        packing: &PyStreamOptions,
        state: Option<&str>,
        strict: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let from = state.map(State::from_json).transpose().map_err(error::to_py)?;
        let parts = Parts::new(options, tokenizer, chat_template, transform);
        let inputs = inputs.0.clone();
        let packing = StreamOptions { strict, ..packing.0.clone() };
        let report = Arc::new(OnceLock::new());
        let reported = Arc::clone(&report);
        let task = Task::spawn(AHEAD, Interrupted::Abandon, move |control, caller, emit| {
            let ended = stream(&parts.job(caller)?, &inputs, &packing, from, control, emit)?;
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

    /// Stops the threads of the stream and waits for their end. It gives no table afterwards.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.task.refuse_own_thread(py)?;
        self.closed.store(true, Ordering::Relaxed);
        self.control.cancel();
        self.task.turn(py)?.close(py);
        Ok(())
    }

    /// The report of the whole stream; `None` before its end.
    #[getter]
    fn report(&self) -> Option<PyReport> {
        self.report.get().cloned().map(PyReport)
    }
}
