//! [`address`]: the addresses by which texts and values are known.

use crate::json::{Json, Map};
use crate::values::value::{Dict, List, Value};

/// The address and length of a text.
pub(super) fn place(text: &str) -> (usize, usize) {
    (text.as_ptr().addr(), text.len())
}

/// The address of a list or an object; `None` for an empty list, because all of them are alike.
pub(super) fn address(value: &Json) -> Option<usize> {
    match value {
        Json::List(items) => (!items.is_empty()).then(|| items.as_ptr().addr()),
        Json::Map(map) => Some(std::ptr::from_ref::<Map>(map).addr()),
        _ => None,
    }
}

/// The address of a list or an object of the record; `None` for any other value of a template.
pub(super) fn address_of(value: &Value<'_>) -> Option<usize> {
    match value {
        Value::List(List::Data(items)) => (!items.is_empty()).then(|| items.as_ptr().addr()),
        Value::Dict(Dict::Data(map)) => Some(std::ptr::from_ref::<Map>(map).addr()),
        _ => None,
    }
}

/// Visits the addresses of a value, and of all strings, lists and objects in it.
pub(super) fn walk(value: &Json, visit: &mut impl FnMut(usize)) {
    match value {
        Json::String(text) => visit(place(text).0),
        other => address(other).into_iter().for_each(&mut *visit),
    }
    match value {
        Json::List(items) => items.iter().for_each(|item| walk(item, visit)),
        Json::Map(map) => map.values().for_each(|item| walk(item, visit)),
        _ => {}
    }
}
