//! [`PyImages`]: the options of pictures in conversations.

use std::num::NonZeroU32;

use fastpack_core::config::{ImageOptions, TokenTypes};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::columns::PyColumn;
use crate::calls::pictures::{PictureParts, PyRemotePictures};
use crate::convert::{counts, field, refuse};
use crate::error;

/// The pictures of conversations, of a `fastpack.tokenizer.pictures.native.NativeImages`.
pub(crate) struct PyImages {
    pub(super) options: ImageOptions,
    /// The storage of those that lie elsewhere, if the call may read them.
    pub(super) remote: Option<PictureParts>,
    pub(super) most_images: Option<NonZeroU32>,
    pub(super) most_image_tokens: Option<NonZeroU32>,
}

impl<'py> FromPyObject<'_, 'py> for PyImages {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let processor: String = field(&value, "configuration")?;
        let processor = ImageOptions::processor(&processor).map_err(error::to_py)?;
        let types: Vec<(PyColumn, Vec<(u32, i32)>)> = field(&value, "token_types")?;
        let token_types = types.into_iter().map(|(PyColumn(column), mut types)| {
            types.sort_unstable();
            TokenTypes { column, types }
        });
        let most_images: Option<PyMostImages> = field(&value, "max_images_per_pack")?;
        let most_image_tokens: Option<PyMostImageTokens> =
            field(&value, "max_image_tokens_per_pack")?;
        let options = ImageOptions {
            marker: field(&value, "marker")?,
            delimiters: field(&value, "delimiters")?,
            adds_special_tokens: field(&value, "adds_special_tokens")?,
            processor,
            token_types: token_types.collect(),
            folder: field(&value, "folder")?,
            embed: field(&value, "embed")?,
            depends_on_number: field(&value, "depends_on_number")?,
            fetch: field(&value, "fetch")?,
        };
        let remote: Option<Py<PyRemotePictures>> = field(&value, "remote")?;
        Ok(Self {
            options,
            remote: remote.map(|remote| remote.get().parts()),
            most_images: most_images.map(|most| most.0),
            most_image_tokens: most_image_tokens.map(|most| most.0),
        })
    }
}

counts!(
    /// The most pictures of a row.
    PyMostImages(NonZeroU32), "reading.images.max_images_per_pack", i32::MAX.cast_unsigned()
);

counts!(
    /// The most tokens of pictures in a row.
    PyMostImageTokens(NonZeroU32), "reading.images.max_image_tokens_per_pack", i32::MAX.cast_unsigned()
);
