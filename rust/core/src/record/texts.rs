//! The texts in a value.

use fastpack_template::json::Json;

/// Appends the texts of a value, in their order.
pub(crate) fn texts_in<'v>(value: &'v Json, texts: &mut Vec<&'v str>) {
    match value {
        Json::String(text) => texts.push(text),
        Json::List(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Json::Map(map) => map.values().for_each(|item| texts_in(item, texts)),
        _ => {}
    }
}
