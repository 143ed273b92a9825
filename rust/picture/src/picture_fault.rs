//! [`PictureFault`], a picture without a size.

use std::io;

/// The reason why the size of a picture cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureFault {
    /// The file holds no picture of a known format.
    #[error("no picture: it starts with `{start}`, as no PNG, JPEG, WebP, GIF, BMP or TIFF does")]
    Unknown {
        /// The first bytes, escaped.
        start: String,
    },
    /// The file ends inside the header.
    #[error("a {format} that ends inside its header, after {length} bytes")]
    Cut {
        /// The name of the format.
        format: &'static str,
        /// The length of the file in bytes.
        length: u64,
    },
    /// The header contradicts its format, or claims too much.
    #[error("a damaged {format}: {found}")]
    Damaged {
        /// The name of the format.
        format: &'static str,
        /// The contradiction.
        found: String,
    },
    /// The reader failed.
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl PictureFault {
    /// A file that starts as no known format does.
    pub(crate) fn unknown(start: &[u8]) -> Self {
        Self::Unknown { start: start.escape_ascii().to_string() }
    }
}
