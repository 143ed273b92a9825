//! [`PyFileSystem`]: a file system of Python, from which the files of a job are read.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use fastpack_core::Error;
use fastpack_core::config::{FileFacts, FileSystem};
use pyo3::exceptions::{PyFileNotFoundError, PyKeyboardInterrupt, PyPermissionError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::CallerException;
use crate::interruptible::Caller;

/// A file of Python: its path, size, etag, and the time of its last change.
type PythonFileFacts = (String, u64, Option<String>, u64);

/// A Python object with the methods `file`, `files` and `read`, which run on the thread that waits for the job.
#[derive(Debug)]
pub(crate) struct PyFileSystem {
    object: Arc<Py<PyAny>>,
    caller: Caller,
}

impl PyFileSystem {
    /// The file system for a job that `caller` waits for.
    pub(crate) fn read_by(object: Arc<Py<PyAny>>, caller: &Caller) -> Arc<dyn FileSystem> {
        Arc::new(Self { object, caller: caller.clone() })
    }

    /// Runs `work` with the object.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send + 'static,
    ) -> io::Result<T> {
        let object = Arc::clone(&self.object);
        let done = self.caller.call(move |py| match work(object.bind(py)) {
            Err(raised) if raised.is_instance_of::<PyKeyboardInterrupt>(py) => Err(raised),
            Err(raised) => {
                let kind = kind_of(py, &raised);
                Ok(Err(io::Error::new(kind, CallerException::new(py, raised))))
            }
            Ok(done) => Ok(Ok(done)),
        });
        // The call that waits raises an interrupt itself.
        done.map_err(|_| Error::cancelled_io())?
    }
}

/// The kind of an exception, as errors of local files have it.
fn kind_of(py: Python<'_>, raised: &PyErr) -> io::ErrorKind {
    if raised.is_instance_of::<PyFileNotFoundError>(py) {
        io::ErrorKind::NotFound
    } else if raised.is_instance_of::<PyPermissionError>(py) {
        io::ErrorKind::PermissionDenied
    } else {
        io::ErrorKind::Other
    }
}

fn facts_of((path, size, etag, modified): PythonFileFacts) -> FileFacts {
    FileFacts { path, size, etag, modified }
}

impl FileSystem for PyFileSystem {
    fn file(&self, path: &str) -> io::Result<Option<FileFacts>> {
        let path = path.to_owned();
        let found = self.with(move |object| {
            object.call_method1("file", (path,))?.extract::<Option<PythonFileFacts>>()
        });
        Ok(found?.map(facts_of))
    }

    fn files(&self, folder: &str) -> io::Result<Vec<FileFacts>> {
        let folder = folder.to_owned();
        let found = self.with(move |object| {
            object.call_method1("files", (folder,))?.extract::<Vec<PythonFileFacts>>()
        });
        Ok(found?.into_iter().map(facts_of).collect())
    }

    fn read(&self, file: &FileFacts, range: Range<u64>) -> io::Result<Option<Vec<u8>>> {
        let FileFacts { path, size, etag, modified } = file.clone();
        self.with(move |object| {
            let facts = (path, size, etag, modified);
            let read = object.call_method1("read", (facts, range.start, range.end))?;
            let bytes: Option<Bound<'_, PyBytes>> = read.extract()?;
            Ok(bytes.map(|bytes| bytes.as_bytes().to_vec()))
        })
    }
}
