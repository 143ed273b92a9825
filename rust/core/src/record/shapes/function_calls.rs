//! [`tool_calls`]: the calls in the text of an older message, whose role is that of a function call, as `tool_calls` hold them.

use std::sync::Arc;

use crate::record::parsing::json;
use fastpack_template::json::Json;

/// Lines of a text at which calls are looked for, behind what the assistant said before.
const MOST_LINES: usize = 64;

/// The calls in a JSON text, one or a list, behind the text in front of them: a thought, or words. `None` where the text ends in
/// something else.
pub(super) fn tool_calls(text: &Json) -> Option<(&str, Json)> {
    let Json::String(text) = text else { return None };
    let lines = text.match_indices('\n').map(|(at, _)| at + 1).take(MOST_LINES);
    std::iter::once(0).chain(lines).find_map(|start| {
        let rest = text[start..].trim_start();
        rest.starts_with(['{', '[']).then_some(())?;
        let calls = json_calls(rest)?;
        let words = &text[..text.len() - rest.len()];
        Some((if words.trim().is_empty() { "" } else { words }, calls))
    })
}

/// The calls in a JSON text, one or a list, as lists of `tool_calls` hold them.
fn json_calls(text: &str) -> Option<Json> {
    let calls = match json::parse(text.as_bytes()).ok()? {
        Json::List(calls) => calls,
        call => Arc::new(vec![call]),
    };
    let structured = calls.iter().map(|call| match call {
        Json::Map(whole) if matches!(whole.get("function"), Some(Json::Map(_))) => {
            Some(call.clone())
        }
        Json::Map(function) if function.contains_key("name") => {
            let kind = (Arc::from("type"), Json::String("function".into()));
            let entries = [kind, (Arc::from("function"), call.clone())];
            Some(Json::Map(Arc::new(entries.into_iter().collect())))
        }
        _ => None,
    });
    Some(Json::List(Arc::new(structured.collect::<Option<_>>()?)))
}
