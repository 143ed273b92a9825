//! [`Error`]: the failures of building a tokenizer and of encoding a text.

use std::io;
use std::path::PathBuf;

/// The result of a function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The failure of building a tokenizer, or of encoding a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the tokenizer could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file of the tokenizer has invalid contents.
    #[error("{file}: {reason}")]
    Malformed {
        /// The file, as its path or as `tokenizer.json` when it came from memory.
        file: String,
        /// The fault, and the expected content.
        reason: String,
    },
    /// fastpack has no rules of its own for a tokenizer class; `transformers` builds it, if it is asked.
    #[error("tokenizer class `{class}` of `{}` is for transformers to build; pass the tokenizer.json that it saves", folder.display())]
    ForeignClass {
        /// The class that `AutoTokenizer` would choose.
        class: String,
        /// The model folder.
        folder: PathBuf,
    },
    /// A tokenizer that neither fastpack nor `transformers` builds without code of the folder.
    #[error("tokenizer class `{class}` is not supported: {reason}")]
    UnsupportedClass {
        /// The class that `AutoTokenizer` would choose.
        class: String,
        /// The reason, and a way around it.
        reason: String,
    },
    /// The caller ended the encoding.
    #[error("the encoding of a text was stopped")]
    Stopped,
    /// The engine refused a text, or the text is too long for it.
    #[error("cannot encode the text: {reason}")]
    Encode {
        /// The reason.
        reason: String,
    },
}

impl Error {
    /// An error about a text, or a part of one, that is longer than an engine takes.
    pub(crate) fn too_long(what: &str, bytes: usize, most: usize) -> Self {
        let reason =
            format!("{what} has {bytes} bytes, and at most {most} are taken; split the text");
        Self::Encode { reason }
    }
}
