//! Plain text: a record with one string as content.

use crate::config::{Part, ShapeName};
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::parsing::line_cursor::LineCursor;
use crate::record::shape::Shape;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

pub(crate) fn read(record: &Map, field: &str) -> Result<String, Fault> {
    match record.get(field) {
        Some(Json::String(text)) if text.is_empty() => {
            Err(Fault::new(Reason::Empty, format!("`{field}` is empty")))
        }
        Some(Json::String(text)) => Ok(text.to_string()),
        other => Err(wrong_type(field, "a string", other)),
    }
}

/// Appends the text of a record of this shape to `out`; `false`, appending nothing, if the record
/// takes the general reader.
pub fn read_text_fast(line: &[u8], shape: &Shape, out: &mut String) -> bool {
    let start = out.len();
    let done = shape.name() == ShapeName::Text && read_fast(line, shape, out).is_some();
    let done = done && out.len() > start;
    if !done {
        out.truncate(start);
    }
    done
}

fn read_fast(line: &[u8], shape: &Shape, out: &mut String) -> Option<()> {
    let field = shape.field(Part::Text);
    let mut cursor = LineCursor::new(line)?;
    let mut found = false;
    cursor.object(|cursor, key| {
        if key != field {
            let is_needed = shape.wants(key) || shape.is_unread_text(key);
            return if is_needed { cursor.null().then_some(()) } else { cursor.skip() };
        }
        if std::mem::replace(&mut found, true) {
            return None;
        }
        cursor.text(out)
    })?;
    (cursor.is_at_end() && found).then_some(())
}
