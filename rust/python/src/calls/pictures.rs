//! Pictures that training finds again: in records, and in remote storage.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow_pyarrow::PyArrowType;
use fastpack_core::pipeline::{HubAccess, PictureStorage, RemotePictures};
use fastpack_core::source::RawContent;
use fastpack_core::{Control, pipeline};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::callers::filesystem::PyFileSystem;
use crate::interruptible::{self, Caller, Interrupted};
use crate::options::storage::PyStorageOptions;

/// A record as its file has it: a line of JSON, or a table of one row.
#[derive(FromPyObject)]
pub(crate) enum PyRawRecord {
    Line(PyBackedBytes),
    Row(PyArrowType<RecordBatch>),
}

/// The bytes of a picture that a record holds, by its number in the conversation, from 0. `readings` are the options by which
/// the record was read, as a manifest has them.
///
/// Raises:
///     `ValueError`: The record holds no such picture.
#[pyfunction]
pub(crate) fn held_picture(
    record: PyRawRecord,
    readings: Vec<String>,
    number: usize,
) -> PyResult<Vec<u8>> {
    let raw = match &record {
        PyRawRecord::Line(line) => RawContent::Json(line),
        PyRawRecord::Row(PyArrowType(batch)) => RawContent::Row { batch, row: 0 },
    };
    let found = pipeline::held_picture(raw, &readings, number);
    found.map_err(|fault| PyValueError::new_err(fault.message))
}

/// The storage of pictures that lie elsewhere, before a job opens it.
#[derive(Clone, Debug)]
pub(crate) struct PictureParts {
    storage: PictureStorage,
    filesystem: Option<Arc<Py<PyAny>>>,
}

impl PictureParts {
    /// The pictures, read for a job that `caller` waits for.
    pub(crate) fn opened(self, caller: &Caller) -> RemotePictures {
        let Self { mut storage, filesystem } = self;
        storage.options.file_system = filesystem.map(|it| PyFileSystem::read_by(it, caller));
        RemotePictures::new(storage, &caller.control())
    }
}

/// Pictures in remote storage, and the options that open it.
#[pyclass(name = "RemotePictures", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyRemotePictures {
    parts: PictureParts,
    /// The opened storage, which keeps its connections, and the process that opened it: a child has none of its threads.
    opened: Mutex<Option<(u32, Arc<RemotePictures>)>>,
}

#[pymethods]
impl PyRemotePictures {
    /// `hub` is the URL of the Hugging Face hub, and the headers of requests to it.
    #[new]
    #[pyo3(signature = (storage, hub))]
    fn new(storage: &PyStorageOptions, hub: Option<(String, BTreeMap<String, String>)>) -> Self {
        let hub = hub.map(|(endpoint, headers)| HubAccess { endpoint, headers });
        let storage_of_pictures = PictureStorage { options: storage.0.clone(), hub };
        let parts = PictureParts { storage: storage_of_pictures, filesystem: storage.1.clone() };
        Self { parts, opened: Mutex::default() }
    }

    /// The bytes of the picture at a URL.
    ///
    /// Raises:
    ///     `StorageError`: The connection is lost.
    ///     `ValueError`: There is no such picture, or it cannot be read.
    fn read(&self, py: Python<'_>, url: String) -> PyResult<Py<PyBytes>> {
        let parts = self.parts();
        let kept = parts.filesystem.is_none().then(|| self.kept());
        let read = interruptible::run(py, None, Interrupted::Abandon, move |_, caller| {
            let pictures = kept.unwrap_or_else(|| Arc::new(parts.opened(caller)));
            pictures.content(&url)
        })?;
        let content = read.map_err(PyValueError::new_err)?;
        Ok(PyBytes::new(py, &content.bytes).unbind())
    }
}

impl PyRemotePictures {
    /// The storage, before a job opens it.
    pub(crate) fn parts(&self) -> PictureParts {
        self.parts.clone()
    }

    /// The storage that this process has opened.
    fn kept(&self) -> Arc<RemotePictures> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        match &*opened {
            Some((process, pictures)) if *process == process::id() => Arc::clone(pictures),
            _ => {
                let storage = self.parts.storage.clone();
                let pictures = Arc::new(RemotePictures::new(storage, &Control::default()));
                *opened = Some((process::id(), Arc::clone(&pictures)));
                pictures
            }
        }
    }
}
