//! [`CancelledOrChanged`]: reasons of an [`io::Error`] of storage that the caller handles in a way of their own.

use std::fmt;
use std::io;

/// The reason of an error that is neither the disk's nor the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelledOrChanged {
    /// The caller cancelled the run.
    Cancelled,
    /// The object has another etag, size or time than when it was found.
    Changed,
}

impl fmt::Display for CancelledOrChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "cancelled",
            Self::Changed => "the file changed while it was read",
        })
    }
}

impl std::error::Error for CancelledOrChanged {}

impl From<CancelledOrChanged> for io::Error {
    fn from(failure: CancelledOrChanged) -> Self {
        Self::other(failure)
    }
}

impl CancelledOrChanged {
    /// The reason of an error, if it is one of these.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Self>().copied()
    }
}
