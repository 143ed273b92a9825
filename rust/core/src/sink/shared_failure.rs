//! [`SharedFailure`]: the error of a failed run, for the runs that wait for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Origin};
use crate::report::ledger::Reason;
use crate::util::wording::Message;

/// An error that another process can raise again.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SharedFailure {
    Record { path: String, line: u64, reason: Reason, message: String },
    Option { name: String, reason: Message },
    Template { name: String, line: usize, reason: Message },
    Io { path: PathBuf, code: i32 },
    Other { message: String },
}

impl SharedFailure {
    /// The message for `error`; `None` where other runs need not fail.
    pub(super) fn of(error: &Error) -> Option<Self> {
        Some(match error {
            Error::Cancelled => return None,
            Error::Record { origin, reason, message } => Self::Record {
                path: origin.path.to_string_lossy().into_owned(),
                line: origin.line,
                reason: *reason,
                message: message.clone(),
            },
            Error::Option { name, reason } => {
                Self::Option { name: (*name).to_owned(), reason: reason.clone() }
            }
            Error::Template { name, line, reason } => {
                Self::Template { name: name.clone(), line: *line, reason: reason.clone() }
            }
            Error::Io { path, source } => match (path.to_str(), source.raw_os_error()) {
                (Some(_), Some(code)) => Self::Io { path: path.clone(), code },
                _ => Self::Other { message: error.to_string() },
            },
            other => Self::Other { message: other.to_string() },
        })
    }

    /// The error, in a process that waited for the folder `dir`.
    pub(super) fn into_error(self, dir: &Path) -> Error {
        match self {
            Self::Record { path, line, reason, message } => {
                let origin = Origin { path: Arc::from(Path::new(&path)), line };
                Error::Record { origin, reason, message }
            }
            // The name is leaked. A process waits for few failures.
            Self::Option { name, reason } => Error::option(name.leak(), reason),
            Self::Template { name, line, reason } => Error::Template { name, line, reason },
            Self::Io { path, code } => {
                Error::Io { path, source: io::Error::from_raw_os_error(code) }
            }
            Self::Other { message } => {
                Error::output(dir, format!("the run that this one waited for failed: {message}"))
            }
        }
    }
}
