//! What can go wrong between a tokenizer's files and its ids.

use std::io;
use std::path::PathBuf;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a tokenizer could not be built, or a text not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the tokenizer could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the tokenizer does not say what it must.
    #[error("{file}: {reason}")]
    Malformed {
        /// The file, as its path or as `tokenizer.json` when it came from memory.
        file: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// `transformers` builds this tokenizer by rules that fastpack does not know.
    #[error("tokenizer class `{class}` is not supported: {reason}")]
    UnsupportedClass {
        /// The class that `AutoTokenizer` would choose.
        class: String,
        /// Why, and the way out.
        reason: String,
    },
    /// The caller ended the encoding.
    #[error("the encoding of a text was stopped")]
    Stopped,
    /// The engine refused a text, or the text is longer than it takes.
    #[error("cannot encode the text: {reason}")]
    Encode {
        /// What the engine said.
        reason: String,
    },
}

impl Error {
    /// Something of a text is longer than an engine takes.
    pub(crate) fn too_long(what: &str, bytes: usize, most: usize) -> Self {
        let reason =
            format!("{what} has {bytes} bytes, and at most {most} are taken; split the text");
        Self::Encode { reason }
    }
}
