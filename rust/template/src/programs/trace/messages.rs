//! Records comparisons of whole messages.

use super::addresses::address_of;
use super::run_trace::Trace;
use crate::json::{Json, Map};
use crate::language::operators::ComparisonOperator;
use crate::programs::steps::{Comparand, Guard};
use crate::values::value::{Dict, Value};

/// The key of the role in a message.
const ROLE: &str = "role";

impl<'r> Trace<'r> {
    /// Records that two messages are equal, or are not. Returns `false` if the values are no messages.
    ///
    /// Their keys, their roles and the types of their values are the same for all conversations of the outline.
    pub(super) fn compare_messages(
        &mut self,
        left: &Value<'r>,
        right: &Value<'r>,
        are_equal: bool,
    ) -> bool {
        let is_message =
            |value| address_of(value).is_some_and(|at| self.messages.contains_key(&at));
        if !is_message(left) || !is_message(right) {
            return false;
        }
        let (Value::Dict(Dict::Data(left)), Value::Dict(Dict::Data(right))) = (left, right) else {
            return false;
        };
        let (left, right): (&'r Map, &'r Map) = (left, right);
        if std::ptr::eq(left, right) || left.len() != right.len() {
            return true;
        }
        if !left.keys().all(|key| right.contains_key(key)) {
            return true;
        }
        if left.get(ROLE) != right.get(ROLE) {
            return true;
        }
        for (key, value) in left {
            let Some(other) = right.get(key) else { continue };
            if are_equal || value != other {
                self.compare_entries(left, right, key, value, other, are_equal);
            }
            if !are_equal && value != other {
                return true;
            }
        }
        if !are_equal {
            self.stop("comparing messages that differ in no value");
        }
        true
    }

    /// Records that the values of a key in two messages are equal, or are not.
    fn compare_entries(
        &mut self,
        left: &'r Map,
        right: &'r Map,
        key: &str,
        value: &'r Json,
        other: &'r Json,
        are_equal: bool,
    ) {
        if key == ROLE {
            return;
        }
        if let (Json::String(_), Json::String(_)) = (value, other) {
            let (value, other) = (Value::from_json(value), Value::from_json(other));
            match (self.register(&value), self.register(&other)) {
                (Some(value), Some(other)) => {
                    let sides = (Comparand::Cut(value), Comparand::Cut(other));
                    let guard = Guard::Compares(ComparisonOperator::Equal, sides.0, sides.1);
                    self.add_guard(guard, are_equal);
                }
                _ => self.stop("comparing texts"),
            }
            return;
        }
        for message in [left, right] {
            let address = std::ptr::from_ref(message).addr();
            let known = self.messages.get(&address);
            let found = known.and_then(|values| values.iter().find(|(name, _)| *name == key));
            if let Some((_, number)) = found {
                self.pin(*number);
            }
        }
    }
}
