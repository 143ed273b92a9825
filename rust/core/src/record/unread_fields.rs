//! [`left_out`]: the fields of a record that hold content, and that its shape does not read.

use std::sync::Arc;

use super::parsing::cbor;
use super::parsing::line_cursor::LineCursor;
use super::read::object;
use super::shape::Shape;
use super::shapes::messages::MessageForms;
use super::tables::row;
use crate::config::PICTURE_COLUMNS;
use crate::config::inputs::fields::TEMPLATE_KWARGS;
use crate::source::RawContent;
use fastpack_template::json::{Json, Map};

/// The nesting depth of values in a record.
const IN_RECORD: usize = 1;

/// The fields that hold content, are not read from this record, and have a text that its document lacks; and the record's own
/// variables that its chat template does not read. `holds` tells if the document has a text, `reads` if the template reads a
/// variable, and `takes` if it takes pictures.
pub fn left_out(
    raw: RawContent<'_>,
    shape: &Shape,
    takes: MessageForms,
    holds: impl Fn(&str) -> bool,
    reads: impl Fn(&str) -> bool,
) -> Vec<Arc<str>> {
    let is_wanted = |field: &str| {
        let is_picture = takes.pictures && PICTURE_COLUMNS.contains(&field);
        shape.may_leave_out(field) && !is_picture
    };
    let record = match raw {
        RawContent::Json(line) => fast(line, is_wanted)
            .or_else(|| object(raw, |_| false).ok().map(|record| (*record).clone())),
        RawContent::Row { batch, row } => Some(row::readable(batch, row, is_wanted)),
        RawContent::Cells { names, cells } => row::cells(names, cells, is_wanted).ok(),
        RawContent::Cbor(item) => cbor::parse(item, is_wanted, true).ok(),
        RawContent::Text(_) | RawContent::Broken { .. } => None,
    };
    let record = record.unwrap_or_default();
    let unread = record.iter().filter(|(field, value)| {
        let is_kwargs = ***field == *TEMPLATE_KWARGS;
        let is_lacking = is_wanted(field) && !shape.takes(field, &record);
        is_lacking && !is_kwargs && lacks(value, &holds)
    });
    let mut unread: Vec<Arc<str>> = unread.map(|(field, _)| Arc::clone(field)).collect();
    if let Some(Json::Map(variables)) = record.get(TEMPLATE_KWARGS) {
        let sees = |name: &str| shape.is_of_messages() && reads(name);
        let unseen = variables.iter().filter(|(name, value)| !sees(name) && lacks(value, &holds));
        unread.extend(unseen.map(|(name, _)| format!("{TEMPLATE_KWARGS}.{name}").into()));
    }
    unread
}

/// The wanted fields of a line; `None` if they must be read in another way.
fn fast(line: &[u8], wanted: impl Fn(&str) -> bool) -> Option<Map> {
    let mut cursor = LineCursor::new(line)?;
    let mut found = Map::default();
    cursor.object(|cursor, key| {
        if !wanted(key) {
            return cursor.skip();
        }
        let (value, _) = cursor.value(IN_RECORD)?;
        found.insert(Arc::from(key), value);
        Some(())
    })?;
    Some(found)
}

/// True if a value has a text that is not blank and that `holds` denies.
fn lacks(value: &Json, holds: &impl Fn(&str) -> bool) -> bool {
    match value {
        Json::String(text) => {
            let text = text.trim();
            !text.is_empty() && !holds(text)
        }
        Json::List(items) => items.iter().any(|item| lacks(item, holds)),
        Json::Map(map) => map.values().any(|item| lacks(item, holds)),
        _ => false,
    }
}
