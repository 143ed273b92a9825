//! Packed folders in remote storage: their files by name, and through the cache of fetched bytes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fastpack_core::pipeline::{self, HeldFile, ListedFile, PackedFolder, usual_cache_size};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::callers::filesystem::PyFileSystem;
use crate::interruptible::{self, Caller, Interrupted};
use crate::options::storage::{PyBlockCache, PyStorageOptions};

/// A folder in remote storage, and the options that open it.
#[pyclass(name = "RemoteFolder", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyRemoteFolder {
    url: String,
    storage: PyStorageOptions,
}

#[pymethods]
impl PyRemoteFolder {
    #[new]
    #[pyo3(signature = (url, storage))]
    fn new(url: String, storage: &PyStorageOptions) -> Self {
        let storage = PyStorageOptions(storage.0.clone(), storage.1.clone());
        Self { url, storage }
    }

    /// The bytes of a small file; `None` if there is none.
    fn read(&self, py: Python<'_>, name: String) -> PyResult<Option<Py<PyBytes>>> {
        let read = self.run(py, move |folder| folder.read(&name))?;
        Ok(read.map(|bytes| PyBytes::new(py, &bytes).unbind()))
    }

    /// Files of the cache in the folder `dir`, fetched into it if they are not there; `None` for those for which files that are
    /// held leave no room.
    fn hold(
        &self,
        py: Python<'_>,
        files: Vec<PyListed>,
        dir: PathBuf,
        most: Option<PyBlockCache>,
    ) -> PyResult<Vec<Option<PyHeldFile>>> {
        let files: Vec<ListedFile> = files.into_iter().map(|file| file.0).collect();
        let held = self.run(py, move |folder| {
            folder.hold(&files, &dir, most.map_or_else(|| usual_cache_size(&dir), |most| most.0))
        })?;
        let held = held.into_iter().map(|held| {
            held.map(|held| PyHeldFile { path: held.path().into(), held: Mutex::new(Some(held)) })
        });
        Ok(held.collect())
    }

    /// The state of the finished job in the folder, as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        let named = PathBuf::from(&self.url);
        self.run(py, move |folder| {
            let text = folder.read("manifest.json")?.unwrap_or_default();
            Ok(pipeline::status_of_manifest(&text, &named)?.to_json())
        })
    }

    /// Writes a file to a path, where there must be none.
    fn copy(&self, py: Python<'_>, name: String, bytes: u64, path: PathBuf) -> PyResult<()> {
        self.run(py, move |folder| folder.copy(&name, bytes, &path))
    }
}

impl PyRemoteFolder {
    /// Does something with the opened folder.
    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&PackedFolder<'_>) -> fastpack_core::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (url, mut options) = (self.url.clone(), self.storage.0.clone());
        let filesystem = self.storage.1.clone();
        interruptible::run(py, None, Interrupted::Abandon, move |control, caller: &Caller| {
            options.file_system = filesystem.map(|it| PyFileSystem::read_by(it, caller));
            work(&PackedFolder::open(&url, &options, control)?)
        })
    }
}

/// A file of the cache, which stays there until it is released.
#[pyclass(name = "HeldFile", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyHeldFile {
    #[pyo3(get)]
    path: PathBuf,
    held: Mutex<Option<HeldFile>>,
}

#[pymethods]
impl PyHeldFile {
    /// Lets the cache remove the file.
    fn release(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A file as a manifest lists it: its name, size, hash, and the hashes of its parts.
pub(crate) struct PyListed(ListedFile);

impl<'py> FromPyObject<'_, 'py> for PyListed {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (name, bytes, blake3, parts) = value.extract()?;
        Ok(Self(ListedFile { name, bytes, blake3, parts }))
    }
}

/// The most bytes of a cache in a folder, as a number: those given, or those that it has by default.
#[pyfunction]
#[pyo3(signature = (dir, most))]
pub(crate) fn block_cache_size(dir: PathBuf, most: Option<PyBlockCache>) -> u64 {
    most.map_or_else(|| usual_cache_size(&dir), |most| most.0)
}
