//! [`Fault`]: the reason that a line is no valid record.

use fastpack_template::json::Json;

use crate::error::{Error, Origin};
use crate::report::ledger::{DroppedRecord, Reason};
use crate::util::message::in_one_line;

/// The reason that a line is no valid record: a [`DroppedRecord`] without its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason under which it is counted.
    pub reason: Reason,
    /// The fault, and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault with a message of bounded length. The message says what is wrong, and what would be right.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: in_one_line(message.into()) }
    }

    /// The fault as the error that ends a run.
    pub fn into_error(self, origin: Origin) -> Error {
        Error::Record { origin, reason: self.reason, message: self.message }
    }

    /// The fault as an entry of the ledger.
    pub fn into_place(self, origin: Origin) -> DroppedRecord {
        DroppedRecord { origin, reason: self.reason, message: self.message }
    }
}

/// The fault of a field of a wrong type.
pub(crate) fn wrong_type(field: &str, expected: &str, found: Option<&Json>) -> Fault {
    let found = found.map_or("nothing", Json::type_name);
    Fault::new(Reason::WrongType, format!("`{field}` must be {expected}, found {found}"))
}
