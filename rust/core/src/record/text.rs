//! Plain text: a record whose content is one string.

use super::value::{Map, Value};
use super::{Fault, wrong_type};
use crate::ledger::Reason;

/// Where the text stands, if nothing else is said.
pub(super) const FIELD: &str = "text";

pub(super) fn read(record: &Map, field: &str) -> Result<String, Fault> {
    match record.get(field) {
        Some(Value::String(text)) if text.is_empty() => {
            Err(Fault::new(Reason::Empty, format!("`{field}` is empty")))
        }
        Some(Value::String(text)) => Ok(text.to_string()),
        other => Err(wrong_type(field, "a string", other)),
    }
}
