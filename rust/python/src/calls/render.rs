//! Renders records with a chat template, without tokenizing: for tests, benchmarks and debugging of
//! templates.

use fastpack_core::config::Turns;
use fastpack_core::json::Map;
use fastpack_core::record::{Conversation, ReplayReader, Shape, parse_conversation};
use fastpack_core::template::{
    ChatTemplate, Printed, Replayed, Replayer, TemplateContext, WantedSpans,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A rendered text, and the byte ranges that the assistant wrote.
type RenderedSpans = (String, Option<Vec<(usize, usize)>>);

/// Renders a conversation, given as JSON, with a chat template.
#[pyfunction]
pub(crate) fn render_template(
    source: &str,
    special_tokens: Vec<(String, String)>,
    record_json: &str,
    spans: bool,
    now_iso: &str,
    turn_ends: Vec<String>,
) -> PyResult<RenderedSpans> {
    let template = template(source, special_tokens, now_iso, turn_ends)?;
    let conversation = parse_conversation(record_json.as_bytes())
        .map_err(|fault| PyValueError::new_err(fault.message))?;
    if spans {
        let rendered = template.render_with_spans(&conversation);
        let (text, spans) = rendered.map_err(|fault| PyValueError::new_err(fault.message))?;
        return Ok((text, Some(spans.into_iter().map(|span| (span.start, span.end)).collect())));
    }
    let text = template.render(&conversation);
    Ok((text.map_err(|fault| PyValueError::new_err(fault.message))?, None))
}

/// Parsed conversations, which benchmarks render repeatedly to measure rendering alone.
#[pyclass(name = "Conversations", module = "fastpack._fastpack", frozen)]
pub(crate) struct PyConversations {
    conversations: Vec<Conversation>,
}

#[pymethods]
impl PyConversations {
    #[new]
    fn new(records_json: Vec<String>) -> PyResult<Self> {
        let read = records_json.iter().map(|record| {
            parse_conversation(record.as_bytes())
                .map_err(|fault| PyValueError::new_err(fault.message))
        });
        Ok(Self { conversations: read.collect::<PyResult<_>>()? })
    }

    /// Renders all conversations with the interpreter, and returns the total length of the texts in bytes.
    fn render(
        &self,
        source: &str,
        special_tokens: Vec<(String, String)>,
        now_iso: &str,
    ) -> PyResult<usize> {
        let template = template(source, special_tokens, now_iso, Vec::new())?;
        let lengths = self.conversations.iter().map(|conversation| {
            let text = template.render(conversation);
            text.map(|text| text.len()).map_err(|fault| PyValueError::new_err(fault.message))
        });
        lengths.sum()
    }
}

/// The reason why this template is interpreted; `None` if recorded programs render it.
#[pyfunction]
pub(crate) fn template_engine_reason(
    source: &str,
    special_tokens: Vec<(String, String)>,
    now_iso: &str,
    turn_ends: Vec<String>,
) -> PyResult<Option<String>> {
    let template = template(source, special_tokens, now_iso, turn_ends)?;
    Ok(template.replays(WantedSpans::Spans, Turns::Auto).err().map(str::to_owned))
}

/// Renders conversations, given as JSON, by recorded programs; `None` for each that only the interpreter
/// renders. With `interpret`, the interpreter renders all.
#[pyfunction]
pub(crate) fn replay_template(
    source: &str,
    special_tokens: Vec<(String, String)>,
    records_json: Vec<String>,
    spans: bool,
    now_iso: &str,
    turn_ends: Vec<String>,
    interpret: bool,
) -> PyResult<Vec<Option<RenderedSpans>>> {
    let template = template(source, special_tokens, now_iso, turn_ends)?;
    let wanted = if spans { WantedSpans::Spans } else { WantedSpans::Text };
    let mut replayer = Replayer::new(&template, wanted, Turns::Auto, false);
    let (mut reader, shape) = (ReplayReader::default(), Shape::conversations());
    let renderings = records_json.iter().map(|record| {
        let line = record.as_bytes();
        let mut out = Replayed::default();
        let read = || parse_conversation(line).ok();
        let is_rendered = if interpret {
            let rendered = read().and_then(|conversation| {
                if spans {
                    return template.render_with_spans(&conversation).ok();
                }
                template.render(&conversation).ok().map(|text| (text, Vec::new()))
            });
            let Printed { text, spans, .. } = &mut out.printed;
            rendered.map(|rendered| (*text, *spans) = rendered).is_some()
        } else {
            reader.read(line, &shape) && replayer.render(&reader, read, &mut out)
        };
        let Printed { mut text, spans: mut found, .. } = out.printed;
        let is_one = !spans || out.texts.texts.len() <= 1;
        if let (true, Some(own)) = (spans, out.texts.texts.pop()) {
            (text, found) = (own.text, own.turns.into_iter().map(|turn| turn.span).collect());
        }
        let found = found.into_iter().map(|span| (span.start, span.end)).collect();
        (is_rendered && is_one).then_some((text, spans.then_some(found)))
    });
    Ok(renderings.collect())
}

fn template(
    source: &str,
    special_tokens: Vec<(String, String)>,
    now_iso: &str,
    turn_ends: Vec<String>,
) -> PyResult<ChatTemplate> {
    let invalid = |message: String| PyValueError::new_err(message);
    let now = now_iso.parse().map_err(|error| invalid(format!("`now_iso`: {error}")))?;
    let (stops, kwargs) = (Vec::new(), Map::default());
    let context = TemplateContext {
        special_tokens,
        special_contents: turn_ends,
        stops,
        tokens: None,
        now,
        kwargs,
    };
    ChatTemplate::new("template", source, context).map_err(|error| invalid(error.to_string()))
}
