//! [`PyReiterable`]: records of a Python object, given anew for each epoch of a stream.

use std::sync::{Arc, Mutex, PoisonError};

use fastpack_core::Result;
use fastpack_core::source::{CallerRecords, Reiterable};
use fastpack_core::stream::CallerSources;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::callers::records::next_of;
use crate::interruptible::Caller;

/// A Python object whose `begin(epoch, place)` returns an iterator over the records of an epoch, after the place if one is given,
/// and whose `place()` returns the place after the records so far, as text, or `None`.
#[derive(Clone, Debug)]
pub(crate) struct PyReiterable(Arc<Py<PyAny>>);

impl PyReiterable {
    pub(crate) fn new(object: Py<PyAny>) -> Self {
        Self(Arc::new(object))
    }

    /// The records of some sources, for a job that `caller` waits for.
    pub(crate) fn supplies_of(sources: Vec<(usize, Self)>, caller: &Caller) -> CallerSources {
        let reiterable = |(number, source): (usize, Self)| {
            let reader = ReiterableReader {
                object: source.0,
                place: Arc::default(),
                caller: caller.clone(),
            };
            (number, Box::new(reader) as Box<dyn Reiterable>)
        };
        CallerSources::of(sources.into_iter().map(reiterable))
    }
}

/// A reader of the records, whose Python code runs on the thread that waits for the job.
#[derive(Debug)]
struct ReiterableReader {
    object: Arc<Py<PyAny>>,
    place: Arc<Mutex<ReaderPlace>>,
    caller: Caller,
}

/// The place of a reader.
#[derive(Debug, Default)]
enum ReaderPlace {
    #[default]
    Closed,
    Open(Py<PyIterator>),
    /// The source raised this.
    Failed(PyErr),
}

impl ReiterableReader {
    /// Runs `work` with the iterator of the epoch. An exception is raised by all later calls too.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(Python<'_>, &Py<PyAny>, &mut ReaderPlace) -> PyResult<T> + Send + 'static,
    ) -> Result<T> {
        let (object, place) = (Arc::clone(&self.object), Arc::clone(&self.place));
        self.caller.call(move |py| {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            if let ReaderPlace::Failed(before) = &*place {
                return Err(before.clone_ref(py));
            }
            work(py, &object, &mut place).inspect_err(|raised| {
                *place = ReaderPlace::Failed(raised.clone_ref(py));
            })
        })
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Bound<'_, PyIterator>) -> PyResult<T> + Send + 'static,
    ) -> Result<Option<T>> {
        self.with(|py, _, place| match place {
            ReaderPlace::Open(iterator) => work(iterator.bind(py)).map(Some),
            ReaderPlace::Closed | ReaderPlace::Failed(_) => Ok(None),
        })
    }
}

impl Reiterable for ReiterableReader {
    fn begin(&mut self, epoch: u64, at: Option<&str>) -> Result<()> {
        let at = at.map(str::to_owned);
        self.with(move |py, object, place| {
            // The iterator before is given up before another begins.
            *place = ReaderPlace::Closed;
            let iterator = object.call_method1(py, "begin", (epoch, at))?;
            *place = ReaderPlace::Open(iterator.bind(py).try_iter()?.unbind());
            Ok(())
        })
    }

    fn next(&mut self, most: usize) -> Result<CallerRecords> {
        let none = || CallerRecords::Values { bytes: Vec::new(), places: Vec::new() };
        let found = self.read(move |iterator| next_of(iterator, |_, count| count >= most))?;
        Ok(found.unwrap_or_else(none))
    }

    fn skip(&mut self, most: u64) -> Result<u64> {
        let skipped = self.read(move |iterator| {
            let mut count = 0;
            while count < most && iterator.clone().next().transpose()?.is_some() {
                count += 1;
            }
            Ok(count)
        });
        Ok(skipped?.unwrap_or(0))
    }

    fn snapshot(&mut self) -> Result<Option<String>> {
        self.with(|py, object, _| object.call_method0(py, "place")?.extract(py))
    }
}
