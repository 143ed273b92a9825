//! Texts that are marked safe: Python's `Markup`, which escapes the texts that it is joined with.

use crate::failure::RenderResult;
use crate::render_limits::{Meter, pieces};
use crate::values::printing::print::to_text;
use crate::values::value::Value;

/// The text of a value for HTML, marked safe; a text that is marked safe stays as it is.
pub(crate) fn escape<'r>(value: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
    if matches!(value, Value::Safe(_)) {
        return Ok(value.clone());
    }
    let text = to_text(value, meter)?;
    let mut out = String::new();
    write_escaped(&mut out, &text, meter)?;
    meter.text(out).map(Value::Safe)
}

/// `left + right`, at least one of which is marked safe; `None` if the other is no text.
pub(crate) fn add<'r>(
    left: &Value<'r>,
    right: &Value<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Option<Value<'r>>> {
    let mut sum = String::new();
    for side in [left, right] {
        match side {
            Value::Safe(text) => meter.write(&mut sum, text)?,
            Value::String(text) => write_escaped(&mut sum, text, meter)?,
            _ => return Ok(None),
        }
    }
    meter.text(sum).map(|sum| Some(Value::Safe(sum)))
}

fn write_escaped(out: &mut String, text: &str, meter: &Meter<'_>) -> RenderResult<()> {
    for piece in pieces(text) {
        meter.characters(piece.len())?;
        for c in piece.chars() {
            match c {
                '&' => meter.write(out, "&amp;")?,
                '<' => meter.write(out, "&lt;")?,
                '>' => meter.write(out, "&gt;")?,
                '\'' => meter.write(out, "&#39;")?,
                '"' => meter.write(out, "&#34;")?,
                other => meter.write_char(out, other)?,
            }
        }
    }
    Ok(())
}
