//! Converts Python arguments to the output options: the folder, its format and the validation split. It holds
//! no defaults.

use std::num::NonZeroU64;
use std::path::PathBuf;

use fastpack_core::config::{
    Appending, Compression, Format, Output, RemoteOutput, RowEncoding, RowLayout, StartingGroups,
    Validation,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::byte_sizes::read_byte_size;
use crate::convert::{field, read_share, refuse, word, words};
use crate::error;
use crate::options::storage::PyStorageOptions;

/// The output folder, and how it is written.
#[pyclass(name = "Output", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyOutput(pub(crate) Output, pub(crate) Option<Appending>);

#[pymethods]
impl PyOutput {
    #[new]
    #[pyo3(signature = (*, dir, format, exists, groups, turn, validation, keep_tokens, shared, memory, recipe, remote))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python functions")]
    fn new(
        dir: PathBuf,
        format: PyFormat,
        exists: PyExists,
        groups: PyGroups,
        turn: Option<(u32, u32)>,
        validation: Option<PyValidationSize>,
        keep_tokens: bool,
        shared: bool,
        memory: PyMemory,
        recipe: Option<String>,
        remote: Option<(String, PyRef<'_, PyStorageOptions>)>,
    ) -> PyResult<Self> {
        let turn = turn.map(|(rank, world_size)| StartingGroups::new(rank, world_size));
        let output = Output {
            dir,
            coding: format.coding,
            per_file: format.per_file,
            hf_layout: format.hf_layout,
            validation: validation.map(|it| it.0),
            shard_bytes: format.shard_size,
            keep_tokens,
            group_bytes: groups.size,
            turn: turn.transpose().map_err(error::to_py)?,
            overwrite: exists.overwrites,
            shared,
            cannot_resume: false,
            wait: exists.waits,
            memory: memory.0,
            recipe,
            remote: remote.map(|(url, storage)| RemoteOutput { url, storage: storage.0.clone() }),
        };
        Ok(Self(output, exists.appends))
    }
}

/// The form of the files, of a `fastpack.Format`.
pub(crate) struct PyFormat {
    pub(crate) coding: RowEncoding,
    shard_size: u64,
    per_file: bool,
    hf_layout: bool,
}

impl<'py> FromPyObject<'_, 'py> for PyFormat {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let compression: Option<PyCompression> = field(&value, "compression")?;
        let coding = RowEncoding {
            format: field::<PyFormatName>(&value, "name")?.0,
            layout: field::<PyRowLayout>(&value, "layout")?.0,
            compression: compression.map(|compression| compression.0),
        };
        Ok(Self {
            coding,
            shard_size: field::<PyShardSize>(&value, "shard_size")?.0,
            per_file: field(&value, "per_file")?,
            hf_layout: field(&value, "hf_layout")?,
        })
    }
}

/// The treatment of an output that is there already, of a `fastpack.Exists`.
pub(crate) struct PyExists {
    overwrites: bool,
    appends: Option<Appending>,
    waits: bool,
}

impl<'py> FromPyObject<'_, 'py> for PyExists {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let then: String = field(&value, "then")?;
        let appends = Appending::WORDS.iter().find(|(word, _)| *word == then);
        let appends = appends.map(|(_, appending)| *appending);
        Ok(Self { overwrites: then == "overwrite", appends, waits: field(&value, "wait")? })
    }
}

/// The groups of a job, of a `fastpack.Groups`.
pub(crate) struct PyGroups {
    size: Option<NonZeroU64>,
}

impl<'py> FromPyObject<'_, 'py> for PyGroups {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let size: Option<PyGroupSize> = field(&value, "size")?;
        Ok(Self { size: size.map(|size| size.0) })
    }
}

words!(
    /// The file format of the output.
    PyFormatName(Format), "format"
);
words!(
    /// The layout of rows in files: full or compact.
    PyRowLayout(RowLayout), "format.layout"
);
words!(
    /// The compression of a file's columns.
    PyCompression(Compression), "format.compression"
);

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
            read_share(value).and_then(Validation::share)
        };
        validation.map(Self).ok_or_else(|| {
            let wanted = "a number of documents, or a share of them above 0 and below 1, such as 0.01 or \"1%\"";
            refuse(value, "validation", wanted)
        })
    }
}

/// The size of a shard in bytes, as [`read_byte_size`] reads it.
struct PyShardSize(u64);

impl<'py> FromPyObject<'_, 'py> for PyShardSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        read_byte_size(value).filter(|&bytes| bytes > 0).map(Self).ok_or_else(|| {
            refuse(
                value,
                "format.shard_size",
                "a number of bytes or a text such as \"512MB\" or \"2GiB\"",
            )
        })
    }
}

/// The size of a group in bytes, as [`read_byte_size`] reads it.
struct PyGroupSize(NonZeroU64);

impl<'py> FromPyObject<'_, 'py> for PyGroupSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        read_byte_size(value).and_then(NonZeroU64::new).map(Self).ok_or_else(|| {
            refuse(
                value,
                "groups.size",
                "a number of bytes or a text such as \"4GB\" or \"512MiB\"",
            )
        })
    }
}

/// The memory for documents in bytes, as [`read_byte_size`] reads it.
pub(crate) struct PyMemory(u64);

impl<'py> FromPyObject<'_, 'py> for PyMemory {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        read_byte_size(value).map(Self).ok_or_else(|| {
            refuse(value, "memory", "a number of bytes or a text such as \"2GB\" or \"512MiB\"")
        })
    }
}
