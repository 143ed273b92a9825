//! [`Fault`]: why a line is no record.

use fastpack_template::json::Value;

use crate::error::{Error, Origin};
use crate::ledger::{Place, Reason};
use crate::message::in_one_line;

/// Why a line is no record: a [`Place`] but for the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name it is counted under.
    pub reason: Reason,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault, with what is wrong and what would be right; what the message quotes of the record is bounded.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: in_one_line(message.into()) }
    }

    /// The fault as the error that ends a run.
    pub fn into_error(self, origin: Origin) -> Error {
        Error::Record { origin, reason: self.reason, message: self.message }
    }

    /// The fault as an entry of the ledger.
    pub fn into_place(self, origin: Origin) -> Place {
        Place { origin, reason: self.reason, message: self.message }
    }
}

/// The fault of a field that holds something else than it must.
pub(super) fn wrong_type(field: &str, expected: &str, found: Option<&Value>) -> Fault {
    let found = found.map_or("nothing", Value::type_name);
    Fault::new(Reason::WrongType, format!("`{field}` must be {expected}, found {found}"))
}
