//! `render_template`: one record through a chat template, for tests and for looking at what a template does.

use fastpack_core::record::parse_conversation;
use fastpack_core::record::value::Map;
use fastpack_core::template::{ChatTemplate, TemplateContext};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A text and the byte ranges of it that the assistant wrote.
type Rendering = (String, Option<Vec<(usize, usize)>>);

/// Renders a conversation, given as JSON, with a chat template.
#[pyfunction]
pub(crate) fn render_template(
    source: &str,
    special_tokens: Vec<(String, String)>,
    record_json: &str,
    spans: bool,
    now_iso: &str,
    turn_ends: Vec<String>,
) -> PyResult<Rendering> {
    let invalid = |message: String| PyValueError::new_err(message);
    let now = now_iso.parse().map_err(|error| invalid(format!("`now_iso`: {error}")))?;
    let conversation =
        parse_conversation(record_json.as_bytes()).map_err(|fault| invalid(fault.message))?;
    let context = TemplateContext { special_tokens, turn_ends, now, kwargs: Map::new() };
    let template = ChatTemplate::new("template", source, context)
        .map_err(|error| invalid(error.to_string()))?;
    if spans {
        let (text, spans) =
            template.render_with_spans(&conversation).map_err(|fault| invalid(fault.message))?;
        return Ok((text, Some(spans.into_iter().map(|span| (span.start, span.end)).collect())));
    }
    Ok((template.render(&conversation).map_err(|fault| invalid(fault.message))?, None))
}
