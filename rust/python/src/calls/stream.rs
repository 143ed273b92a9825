//! `StreamTables`: an iterator over the tables of a stream, which the core fills in the background.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use fastpack_core::stream::{
    AllReduceMax, EndAgreement, MOST_LANES, RecordSelection, RowAssignment, StreamInputs,
    StreamOptions, StreamState, count, stream,
};
use fastpack_core::{Control, Report};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::arrow::NewTable;
use crate::callers::reiterable::PyReiterable;
use crate::callers::transform::PyTransform;
use crate::calls::pretrained::PyPretrained;
use crate::convert::{counts, refuse, switches};
use crate::error;
use crate::interruptible::{self, Caller, Interrupted, JobThread, SharedTask};
use crate::job::{JobParts, PyChatTemplate};
use crate::options::inputs::PyInputs;
use crate::options::output::PyValidationSize;
use crate::options::packing::PyPacking;
use crate::options::stream::{PyMixture, PyRanks, PySelect};
use crate::options::{PyBatchSize, PyOptions};
use crate::report::PyReport;

/// The tables that wait to be taken: the next one, and one that is made while the next is taken.
const AHEAD: usize = 2;

switches!(
    /// True if records are read in a random order, which the seed decides.
    PyShuffled, "shuffle"
);
counts!(
    /// The number of times that the input is read.
    PyEpochs(NonZeroU64), "epochs", u64::MAX
);
counts!(
    /// The number of ranks that share the rows.
    PyWorldSize(NonZeroUsize), "ranks.world_size", MOST_LANES
);
counts!(
    /// The most tables of a run.
    PyMaxSteps(NonZeroU64), "max_steps", u64::MAX
);

/// The number of a rank.
struct PyRank(usize);

impl<'py> FromPyObject<'_, 'py> for PyRank {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number.map(Self).ok_or_else(|| refuse(value, "ranks.rank", "a whole number from 0"))
    }
}

/// The options of a stream: batches, lanes, ranks and the mix of sources.
#[pyclass(name = "StreamOptions", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyStreamOptions(StreamOptions);

#[pymethods]
impl PyStreamOptions {
    #[new]
    #[pyo3(signature = (*, batch_size, strategy, shuffle, epochs, select, weights, ranks, rank, world_size, rank_source, max_steps, names, shares, cache_dir, agreed, by_row, validation, held_out))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
    fn new(
        batch_size: PyBatchSize,
        strategy: PyPacking,
        shuffle: PyShuffled,
        epochs: Option<PyEpochs>,
        select: PySelect,
        weights: PyMixture,
        ranks: PyRanks,
        rank: PyRank,
        world_size: PyWorldSize,
        rank_source: Option<String>,
        max_steps: Option<PyMaxSteps>,
        names: Vec<String>,
        shares: Vec<(u64, Vec<f64>)>,
        cache_dir: Option<PathBuf>,
        agreed: bool,
        by_row: bool,
        validation: Option<PyValidationSize>,
        held_out: bool,
    ) -> PyResult<Self> {
        let options = StreamOptions {
            batch_rows: batch_size.0,
            deal: if by_row { RowAssignment::Rows } else { RowAssignment::Tables },
            open_packs: strategy.open_rows.unwrap_or(NonZeroUsize::MIN),
            shuffle: shuffle.0,
            epochs: epochs.map(|epochs| epochs.0),
            on_end: ranks.on_end,
            choice: RecordSelection {
                fields: select.fields,
                min_tokens: select.min_tokens,
                max_tokens: select.max_tokens,
                validation: validation.map(|size| size.0),
                held_out,
                numbers: select.numbers,
            },
            together: if agreed {
                Some(EndAgreement::Agreed)
            } else {
                cache_dir.map(EndAgreement::Counted)
            },
            lanes: ranks.lanes,
            rank: rank.0,
            world_size: world_size.0,
            rank_source,
            max_steps: max_steps.map(|steps| steps.0.get()),
            strict: true,
            names,
            weights: shares,
            weight_unit: weights.unit,
            on_exhausted: weights.on_exhausted,
        };
        options.validate().map_err(error::to_py)?;
        Ok(Self(options))
    }
}

/// Counts the rows that each lane of a finite stream has: from the stream's `cache_dir`, or now. Returns them, the
/// tokens in them, and the tables that each rank takes.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of a job")]
pub(crate) fn count_stream(
    py: Python<'_>,
    inputs: &PyInputs,
    options: &PyOptions,
    tokenizer: Option<&PyPretrained>,
    chat_template: PyChatTemplate,
    transform: PyTransform,
    packing: &PyStreamOptions,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<u64>, u64, u64)> {
    let parts = JobParts::new(options, tokenizer, chat_template, transform);
    let (records, inputs, packing) = (inputs.records(), inputs.unread(), packing.0.clone());
    interruptible::run(py, progress.as_ref(), Interrupted::Join, move |control, caller| {
        let caller_sources = PyReiterable::supplies_of(records, caller);
        let job = parts.job_of_stream(caller)?;
        let inputs = inputs.read_by(caller);
        let inputs = StreamInputs { inputs: &inputs, caller_sources: &caller_sources };
        let counted = count(&job, inputs, &packing, control)?;
        Ok((counted.rows, counted.tokens, counted.steps))
    })
}

/// Refuses a text that is not the state of a stream.
#[pyfunction]
pub(crate) fn check_state(state: &str) -> PyResult<()> {
    StreamState::from_json(state).map(drop).map_err(error::to_py)
}

/// True if the state of a stream is one before the first table.
#[pyfunction]
pub(crate) fn is_beginning(state: &str) -> PyResult<bool> {
    StreamState::from_json(state).map(|state| state.is_beginning()).map_err(error::to_py)
}

/// The state of a stream with these options before its first table; of any stream without them.
#[pyfunction]
pub(crate) fn first_state(
    options: Option<&PyOptions>,
    packing: Option<&PyStreamOptions>,
) -> String {
    let options = options.zip(packing).map(|(options, packing)| (&options.0, &packing.0));
    StreamState::beginning(options).to_json()
}

/// The state after a row of a table whose rows are dealt one by one, from the state after the table and its places.
#[pyfunction]
pub(crate) fn state_after_row(state: &str, places: &str, row: usize) -> PyResult<String> {
    fastpack_core::stream::state_after_row(state, places, row).map_err(error::to_py)
}

/// Joins the states of all ranks of a run.
#[pyfunction]
pub(crate) fn merge_states(states: Vec<String>) -> PyResult<String> {
    let states =
        states.iter().map(|text| StreamState::from_json(text)).collect::<Result<Vec<_>, _>>();
    let merged = states.and_then(|states| fastpack_core::stream::merge_states(&states));
    merged.map(|state| state.to_json()).map_err(error::to_py)
}

/// An iterator over tables of packed rows. Dropping it stops and joins its threads.
#[pyclass(name = "StreamTables", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyStreamTables {
    task: SharedTask<RecordBatch>,
    control: Arc<Control>,
    closed: AtomicBool,
    /// True once `next` has raised the error that ended the stream; `passes` if the error was of a kind that can pass.
    failed: AtomicBool,
    passes: AtomicBool,
    /// The number of tables that are made and not taken.
    waiting: Arc<AtomicUsize>,
    report: Arc<OnceLock<Report>>,
    progress: Option<Py<PyAny>>,
}

/// The caller's function of a number that returns the greatest that a rank gave.
fn greatest_of(
    greatest: Py<PyAny>,
    caller: &Caller,
) -> impl Fn(u64) -> fastpack_core::Result<u64> + use<> {
    let (greatest, caller) = (Arc::new(greatest), caller.clone());
    move |number| {
        let greatest = Arc::clone(&greatest);
        caller.call(move |py| {
            let found = greatest.call1(py, (number,))?;
            let found = found.bind(py);
            found.extract().map_err(|_| {
                let wanted = "a function that returns the greatest of the whole numbers that ranks call it with";
                refuse(found.as_borrowed(), "ranks.all_reduce", wanted)
            })
        })
    }
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
        all_reduce: Option<Py<PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let from = state.map(StreamState::from_json).transpose().map_err(error::to_py)?;
        let parts = JobParts::new(options, tokenizer, chat_template, transform);
        let (records, inputs) = (inputs.records(), inputs.unread());
        let packing = StreamOptions { strict, ..packing.0.clone() };
        let report = Arc::new(OnceLock::new());
        let reported = Arc::clone(&report);
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        let task = JobThread::spawn(AHEAD, Interrupted::Abandon, move |control, caller, emit| {
            let agree = all_reduce.map(|greatest| greatest_of(greatest, caller));
            let agree = agree.as_ref().map(|agree| agree as AllReduceMax<'_>);
            let job = parts.job_of_stream(caller)?;
            let caller_sources = PyReiterable::supplies_of(records, caller);
            let inputs = inputs.read_by(caller);
            let inputs = StreamInputs { inputs: &inputs, caller_sources: &caller_sources };
            let mut emit = |table| {
                // Counted before the consumer can take it, so that the number is never below zero.
                count.fetch_add(1, Ordering::Relaxed);
                emit(table)
            };
            let ended = stream(&job, inputs, &packing, from, agree, control, &mut emit)?;
            reported.set(ended).expect("a job ends once");
            Ok(())
        })?;
        let control = task.control();
        Ok(Self {
            task: SharedTask::new(task),
            control,
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            passes: AtomicBool::new(false),
            waiting,
            report,
            progress,
        })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<NewTable>> {
        let mut task = self.task.turn(py)?;
        if self.closed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match task.next(py, self.progress.as_ref()) {
            Ok(Some(rows)) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Ok(Some(rows.into()))
            }
            Err(_) if self.closed.load(Ordering::Relaxed) => Ok(None),
            Ok(None) => Ok(None),
            Err(error) => {
                self.passes.store(task.passes(), Ordering::Relaxed);
                self.failed.store(true, Ordering::Relaxed);
                Err(error)
            }
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

    /// True if `next` has raised the error that ended the stream. It gives no table afterwards.
    #[getter]
    fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// True if that was an error of a machine, which can pass, and not of the data or the options.
    #[getter]
    fn passes(&self) -> bool {
        self.passes.load(Ordering::Relaxed)
    }

    /// A warning for the caller before the end; `None` if there is none.
    #[getter]
    fn warning(&self) -> Option<&str> {
        self.control.warning()
    }

    /// The number of tables that are made and wait to be taken.
    #[getter]
    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The report of the whole stream; `None` before its end.
    #[getter]
    fn report(&self) -> Option<PyReport> {
        self.report.get().cloned().map(PyReport)
    }
}
