//! [`PyRecords`]: records in memory, from a table, an iterator of record batches, or an iterator of values.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow_pyarrow::PyArrowType;
use fastpack_core::source::{CallerRecords, MemoryRecords};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::arrow::TableArgument;
use crate::callers::values_to_json::{JsonValueError, write};
use crate::interruptible::Caller;

/// The bytes of values that are read from an iterator at once, as in a block of a file.
const BYTES: usize = 256 << 10;

/// The longest time that values are collected before they are handed over, so that a slow iterator delays
/// nothing.
const PATIENCE: Duration = Duration::from_millis(50);

/// The note on an exception of the caller's iterator.
const NOTE: &str = "while fastpack read the records";

/// Records in memory. An iterator is used up by the first call that reads it.
#[pyclass(name = "Records", module = "fastpack._fastpack", frozen, skip_from_py_object)]
#[derive(Clone, Debug)]
pub(crate) struct PyRecords(RecordsKind);

#[derive(Clone, Debug)]
enum RecordsKind {
    Table(Vec<RecordBatch>),
    Batches(Arc<Py<PyIterator>>, Option<String>),
    Values(Arc<Py<PyIterator>>),
}

#[pymethods]
impl PyRecords {
    /// The rows of a table.
    #[staticmethod]
    fn table(table: TableArgument) -> Self {
        Self(RecordsKind::Table(table.0.into_inner().0))
    }

    /// The rows of the record batches that an iterator gives. In place of an unreadable batch it gives an
    /// error text. `known_as` is the identity of the records, if they have one.
    #[staticmethod]
    fn batches(batches: Py<PyIterator>, known_as: Option<String>) -> Self {
        Self(RecordsKind::Batches(Arc::new(batches), known_as))
    }

    /// The values that an iterator gives. Each is a record.
    #[staticmethod]
    fn values(values: Py<PyIterator>) -> Self {
        Self(RecordsKind::Values(Arc::new(values)))
    }
}

impl PyRecords {
    /// The records, for a job that `caller` waits for.
    pub(crate) fn into_memory(self, caller: &Caller) -> MemoryRecords {
        let caller = caller.clone();
        match self.0 {
            RecordsKind::Table(batches) => MemoryRecords::table(batches),
            RecordsKind::Batches(iterator, known_as) => MemoryRecords::of("table", move || {
                let iterator = Arc::clone(&iterator);
                caller.call(move |py| noted(py, next_batch(iterator.bind(py))))
            })
            .known_as(known_as),
            RecordsKind::Values(iterator) => MemoryRecords::of("records", move || {
                let iterator = Arc::clone(&iterator);
                caller.call(move |py| noted(py, next_values(iterator.bind(py))))
            }),
        }
    }
}

/// Adds the note to an exception. Python 3.10 has no notes.
fn noted<T>(py: Python<'_>, read: PyResult<T>) -> PyResult<T> {
    read.inspect_err(|raised| drop(raised.value(py).call_method1("add_note", (NOTE,))))
}

fn next_batch(iterator: &Bound<'_, PyIterator>) -> PyResult<Option<CallerRecords>> {
    let Some(item) = iterator.clone().next().transpose()? else { return Ok(None) };
    if let Ok(message) = item.extract::<String>() {
        return Ok(Some(CallerRecords::Broken(message)));
    }
    Ok(Some(match item.extract::<PyArrowType<RecordBatch>>() {
        Ok(batch) => CallerRecords::Rows(batch.0),
        Err(refused) => CallerRecords::Broken(refused.value(iterator.py()).to_string()),
    }))
}

fn next_values(iterator: &Bound<'_, PyIterator>) -> PyResult<Option<CallerRecords>> {
    let started = Instant::now();
    let is_enough = |bytes: usize, _| bytes >= BYTES || started.elapsed() >= PATIENCE;
    let records = next_of(iterator, is_enough)?;
    let is_end = matches!(&records, CallerRecords::Values { places, .. } if places.is_empty());
    Ok((!is_end).then_some(records))
}

/// The next values of an iterator, until their bytes and number are enough.
pub(crate) fn next_of(
    iterator: &Bound<'_, PyIterator>,
    is_enough: impl Fn(usize, usize) -> bool,
) -> PyResult<CallerRecords> {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for value in iterator.clone() {
        let start = bytes.len();
        let written = match write(&value?, &mut bytes) {
            Ok(()) => Ok(start..bytes.len()),
            Err(JsonValueError::Unwritable(message)) => {
                bytes.truncate(start);
                Err(message)
            }
            Err(JsonValueError::Raised(raised)) => return Err(raised),
        };
        places.push(written);
        if is_enough(bytes.len(), places.len()) {
            break;
        }
    }
    Ok(CallerRecords::Values { bytes, places })
}
