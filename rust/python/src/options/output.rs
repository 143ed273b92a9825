//! Converts Python arguments to the output options: the folder, its format and the validation split. It holds
//! no defaults.

use std::num::NonZeroU64;
use std::path::PathBuf;

use fastpack_core::config::{
    Appending, Coding, Compression, Format, Output, RemoteOutput, RowLayout, StartingGroups,
    Validation,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::convert::{bytes_given, refuse, share_given, word, words};
use crate::error;
use crate::options::storage::PyStorageOptions;

/// The output folder, and how it is written.
#[pyclass(name = "Output", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyOutput(pub(crate) Output);

#[pymethods]
impl PyOutput {
    #[new]
    #[pyo3(signature = (*, dir, format, layout, compression, per_file, hf_layout, validation, shard_size, keep_tokens, group_size, turn, overwrite, shared, wait, memory, recipe, remote))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python functions")]
    #[expect(clippy::fn_params_excessive_bools, reason = "keywords name them")]
    fn new(
        dir: PathBuf,
        format: PyFormat,
        layout: PyRowLayout,
        compression: Option<PyCompression>,
        per_file: bool,
        hf_layout: bool,
        validation: Option<PyValidationSize>,
        shard_size: PyShardSize,
        keep_tokens: bool,
        group_size: Option<PyGroupSize>,
        turn: Option<(u32, u32)>,
        overwrite: bool,
        shared: bool,
        wait: bool,
        memory: PyMemory,
        recipe: Option<String>,
        remote: Option<(String, PyRef<'_, PyStorageOptions>)>,
    ) -> PyResult<Self> {
        let compression = compression.map(|compression| compression.0);
        let coding = Coding { format: format.0, layout: layout.0, compression };
        let (shard_bytes, memory) = (shard_size.0, memory.0);
        let turn = turn.map(|(rank, world_size)| StartingGroups::new(rank, world_size));
        Ok(Self(Output {
            dir,
            coding,
            per_file,
            hf_layout,
            validation: validation.map(|it| it.0),
            shard_bytes,
            keep_tokens,
            group_bytes: group_size.map(|size| size.0),
            turn: turn.transpose().map_err(error::to_py)?,
            overwrite,
            shared,
            cannot_resume: false,
            wait,
            memory,
            recipe,
            remote: remote.map(|(url, storage)| RemoteOutput { url, storage: storage.0.clone() }),
        }))
    }
}

words!(
    /// The file format of the output.
    PyFormat(Format), "format"
);
words!(
    /// The layout of rows in files: full or compact.
    PyRowLayout(RowLayout), "format.layout"
);
words!(
    /// The compression of a file's columns.
    PyCompression(Compression), "format.compression"
);

/// The way to append files to a finished folder.
pub(crate) struct PyAppending(pub(crate) Appending);

impl<'py> FromPyObject<'_, 'py> for PyAppending {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        word(value, "exists", Appending::WORDS).map(Self)
    }
}

/// The size of the validation split of a run in memory.
#[pyclass(name = "Validation", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyValidation(pub(crate) Validation);

#[pymethods]
impl PyValidation {
    #[new]
    fn new(validation: PyValidationSize) -> Self {
        Self(validation.0)
    }
}

/// The size of the validation split: a number of documents, a share, or a text such as `1%`.
pub(crate) struct PyValidationSize(pub(crate) Validation);

impl<'py> FromPyObject<'_, 'py> for PyValidationSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let validation = if value.is_instance_of::<PyInt>() {
            let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
            number.map(Validation::Documents)
        } else {
            share_given(value).and_then(Validation::share)
        };
        validation.map(Self).ok_or_else(|| {
            let wanted = "a number of documents, or a share of them above 0 and below 1, such as 0.01 or \"1%\"";
            refuse(value, "validation", wanted)
        })
    }
}

/// The size of a shard in bytes, as [`bytes_given`] reads it.
pub(crate) struct PyShardSize(u64);

impl<'py> FromPyObject<'_, 'py> for PyShardSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        bytes_given(value).filter(|&bytes| bytes > 0).map(Self).ok_or_else(|| {
            refuse(
                value,
                "format.shard_size",
                "a number of bytes or a text such as \"512MB\" or \"2GiB\"",
            )
        })
    }
}

/// The size of a group in bytes, as [`bytes_given`] reads it.
pub(crate) struct PyGroupSize(NonZeroU64);

impl<'py> FromPyObject<'_, 'py> for PyGroupSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        bytes_given(value).and_then(NonZeroU64::new).map(Self).ok_or_else(|| {
            refuse(
                value,
                "groups.size",
                "a number of bytes or a text such as \"4GB\" or \"512MiB\"",
            )
        })
    }
}

/// The memory for documents in bytes, as [`bytes_given`] reads it.
pub(crate) struct PyMemory(u64);

impl<'py> FromPyObject<'_, 'py> for PyMemory {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        bytes_given(value).map(Self).ok_or_else(|| {
            refuse(value, "memory", "a number of bytes or a text such as \"2GB\" or \"512MiB\"")
        })
    }
}
