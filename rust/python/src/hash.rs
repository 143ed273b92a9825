//! `content_hash`: the hash of a file, as manifests record it.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use fastpack_core::error::Error;
use pyo3::prelude::*;

use crate::supervise::{self, Interrupted};

/// The bytes of one read: enough for BLAKE3 to use all SIMD lanes of the processor.
const PIECE: usize = 1 << 20;

/// The BLAKE3 hash of a file, in hexadecimal.
#[pyfunction]
pub(crate) fn content_hash(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    supervise::run(py, None, Interrupted::Abandon, move |control, _| {
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
