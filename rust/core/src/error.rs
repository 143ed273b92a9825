//! The one error of this crate, and the place of a record in the data.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::report::count::Count;
use crate::report::reason::Reason;
use crate::storage::cancelled_or_changed::CancelledOrChanged;
use crate::util::message::ShownPath;
use crate::util::wording::Message;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The file and line of a record. Origins are ordered by file, then line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The file.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub path: Arc<Path>,
    /// The line in it, from 1.
    pub line: u64,
}

/// A path as text. Bytes that are no Unicode are replaced, which is good enough for a message.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

fn from_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Arc<Path>, D::Error> {
    String::deserialize(deserializer).map(|text| Arc::from(Path::new(&text)))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", ShownPath(&self.path), self.line)
    }
}

/// Adds places to others: the first `most` of all stay, each once. So the order in which parts of the input are added does
/// not matter.
pub(crate) fn add_places<T: Ord>(places: &mut Vec<T>, others: Vec<T>, most: usize) {
    if !others.is_empty() {
        places.extend(others);
        places.sort();
        places.dedup();
        places.truncate(most);
    }
}

/// Adds a place to others, of which the first `most` stay. A stream meets the records of a block in any order.
pub(crate) fn add_place<T: Ord>(places: &mut Vec<T>, place: T, most: usize) {
    if places.len() < most || places.last().is_some_and(|last| place < *last) {
        add_places(places, vec![place], most);
    }
}

/// The reason that a run failed: a variant for each thing that a caller can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A record is invalid.
    #[error("{origin}: {message}")]
    Record {
        /// The file and line.
        origin: Origin,
        /// The reason under which it is counted.
        reason: Reason,
        /// The fault, and what would be right.
        message: String,
    },
    /// An option has a value that it cannot have.
    #[error("invalid option `{name}`: {reason}")]
    Option {
        /// The name of the option.
        name: &'static str,
        /// The fault, and what would be right.
        reason: Message,
    },
    /// A chat template cannot be used.
    #[error("chat template `{name}`, line {line}: {reason}")]
    Template {
        /// The template's name.
        name: String,
        /// The line in it, from 1.
        line: usize,
        /// The fault, and the way out.
        reason: Message,
    },
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] fastpack_tokenize::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", ShownPath(path))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file changed while it was read.
    #[error("{}: the file changed while it was read; run again once nothing writes to it", ShownPath(.0))]
    Changed(PathBuf),
    /// An input has changed since the job began, and the job cannot be resumed.
    #[error(
        "{}: has changed since this job began; what was done of it is given up, run it again to start over",
        ShownPath(path)
    )]
    Stale {
        /// The input.
        path: PathBuf,
    },
    /// The system starts no thread for the call.
    #[error(
        "the system starts no thread for this call ({0}); raise the limit on processes and threads \
         (`ulimit -u`, the `pids` limit of a container), or end some"
    )]
    NoThread(#[source] io::Error),
    /// The output folder holds files that this run would overwrite.
    #[error("{}: {reason}", ShownPath(path))]
    Output {
        /// The folder.
        path: PathBuf,
        /// The files that are there, and the way out.
        reason: Message,
    },
    /// Another run is writing to the output folder, and this one must not wait for it.
    #[error("{}: {reason}", ShownPath(path))]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The way out.
        reason: Message,
    },
    /// More was lost than the caller allows.
    #[error("{message}")]
    Lost {
        /// The documents and tokens that were lost.
        lost: Count,
        /// The amount that was lost, the total, the limit, the reason and the place.
        message: Message,
    },
    /// The ledger does not balance: documents or tokens read are not those kept and dropped. A bug of
    /// fastpack.
    #[error("the ledger does not balance: {0}; please report this")]
    Unbalanced(String),
    /// The compiled engine and the reference engine disagree: a bug of fastpack.
    #[error("the ids of {0} are not those of the reference engine; please report this")]
    Differs(String),
    /// Rows that were written contradict themselves, or are none.
    #[error("{0}")]
    Rows(String),
    /// Arrow refused a batch.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// An error of the caller's own function or iterator.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
    /// The caller cancelled the run.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// An [`Error::Io`] about `path`, to be used in `map_err`; [`Error::Cancelled`] or [`Error::Changed`] where that is
    /// the reason.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match CancelledOrChanged::of(&source) {
            None => Self::Io { path, source },
            Some(CancelledOrChanged::Cancelled) => Self::Cancelled,
            Some(CancelledOrChanged::Changed) => Self::Changed(path),
        }
    }

    /// The error of an operation on a file that ended because the caller cancelled the run.
    #[must_use]
    pub fn cancelled_io() -> io::Error {
        CancelledOrChanged::Cancelled.into()
    }

    /// An [`Error::Option`].
    pub fn option(name: &'static str, reason: impl Into<Message>) -> Self {
        Self::Option { name, reason: reason.into() }
    }

    /// An [`Error::Output`] about the folder `path`.
    pub fn output(path: impl Into<PathBuf>, reason: impl Into<Message>) -> Self {
        Self::Output { path: path.into(), reason: reason.into() }
    }

    /// The error of a run without a tokenizer that meets a record without ids.
    pub fn no_tokenizer() -> Self {
        Self::option("tokenizer", "must be given: only records that are ids need none")
    }

    /// True if the run can be resumed after this error: the machine failed or the caller cancelled, but the
    /// job is valid.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Cancelled)
    }

    /// The error of a chat template or a tokenizer, with the place of the record that needs it and the `kind`
    /// of that record.
    pub(crate) fn with_record(&self, origin: impl fmt::Display, kind: &str) -> Self {
        match self {
            Self::Template { name, line, reason } => Self::Template {
                name: name.clone(),
                line: *line,
                reason: reason.clone().with(format!(" ({origin} is {kind})").into()),
            },
            Self::Option { name, reason } => {
                Self::option(name, reason.clone().with(format!(" ({origin} is {kind})").into()))
            }
            other => Self::option("chat_template", format!("{other} ({origin} is {kind})")),
        }
    }
}
