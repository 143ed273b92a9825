//! Files as manifests record them: their hashes, the seal of the manifest, and whether they lie in its folder.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use fastpack_core::error::Error;
use fastpack_core::sink;
use fastpack_core::util::disk::inside_folder::FolderBounds;
use fastpack_core::util::disk::sealed;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::interruptible::{self, Interrupted};

/// The bytes of one read: enough for BLAKE3 to use all SIMD lanes of the processor.
const PIECE: usize = 1 << 20;

/// The BLAKE3 hash of a file, in hexadecimal.
#[pyfunction]
pub(crate) fn content_hash(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        let mut file = File::open(&path).map_err(Error::io(&path))?;
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE];
        loop {
            control.tick()?;
            match file.read(&mut piece).map_err(Error::io(&path))? {
                0 => return Ok(hasher.finalize().to_hex().to_string()),
                read => hasher.update(&piece[..read]),
            };
        }
    })
}

/// The BLAKE3 hash of some bytes, in hexadecimal.
#[pyfunction]
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The hash of a file of kept tokens, in hexadecimal; `None` if the file is damaged.
#[pyfunction]
pub(crate) fn tokens_hash(py: Python<'_>, path: PathBuf) -> PyResult<Option<String>> {
    interruptible::run(py, None, Interrupted::Abandon, move |control, _| {
        sink::tokens_hash(&path, control)
    })
}

/// True if a text is sealed, and unchanged since.
#[pyfunction]
pub(crate) fn is_sealed(text: &[u8]) -> bool {
    sealed::is_whole(text)
}

/// The first of some names of files in a folder that lies elsewhere, by itself or through a link; `None` if all lie in the folder.
#[pyfunction]
pub(crate) fn first_outside(folder: PathBuf, names: Vec<String>) -> PyResult<Option<String>> {
    let bounds = FolderBounds::of(&folder).map_err(Error::io(&folder)).map_err(to_py)?;
    Ok(names.into_iter().find(|name| bounds.path_of(name.as_ref()).is_none()))
}
