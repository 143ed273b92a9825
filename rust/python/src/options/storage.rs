//! Converts Python arguments to the options of remote storage. It holds no defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fastpack_core::config::{ResolvedFile, StorageOptions};
use pyo3::prelude::*;

use crate::byte_sizes::read_byte_size;
use crate::convert::{field, refuse};

/// The options of remote storage: credentials, retries, the block cache, and files that Python has found.
#[pyclass(name = "StorageOptions", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyStorageOptions(pub(crate) StorageOptions, pub(crate) Option<Arc<Py<PyAny>>>);

/// A file that Python has found: its name, its URL and the headers of its requests.
type NamedFile = (String, String, BTreeMap<String, String>);

#[pymethods]
impl PyStorageOptions {
    #[new]
    #[pyo3(signature = (*, storage, cache, given, filesystem))]
    fn new(
        storage: PyStorage,
        cache: Option<PathBuf>,
        given: BTreeMap<String, Vec<NamedFile>>,
        filesystem: Option<Py<PyAny>>,
    ) -> Self {
        let file = |(name, url, headers): NamedFile| ResolvedFile { name, url, headers };
        let resolved_files = given
            .into_iter()
            .map(|(name, files)| (name, files.into_iter().map(file).collect()))
            .collect();
        let block_cache = cache.zip(storage.block_cache);
        let options = StorageOptions {
            options: storage.options,
            block_cache,
            resolved_files,
            file_system: None,
        };
        Self(options, filesystem.map(Arc::new))
    }
}

/// The options of remote storage and the size of the block cache, of a `fastpack.Storage`.
pub(crate) struct PyStorage {
    options: BTreeMap<String, String>,
    block_cache: Option<u64>,
}

impl<'py> FromPyObject<'_, 'py> for PyStorage {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let options: Option<BTreeMap<String, String>> = field(&value, "options")?;
        let block_cache: Option<PyBlockCache> = field(&value, "block_cache")?;
        Ok(Self {
            options: options.unwrap_or_default(),
            block_cache: block_cache.map(|most| most.0),
        })
    }
}

/// The size of the block cache in bytes, as [`read_byte_size`] reads it.
pub(crate) struct PyBlockCache(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for PyBlockCache {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        read_byte_size(value).map(Self).ok_or_else(|| {
            refuse(
                value,
                "storage.block_cache",
                "a number of bytes or a text such as \"20GB\" or \"512MiB\"",
            )
        })
    }
}
