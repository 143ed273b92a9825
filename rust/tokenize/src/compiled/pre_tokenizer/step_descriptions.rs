//! The steps of a pre-tokenizer, as `tokenizer.json` writes them.

use serde_json::Value;

use crate::pattern::Pattern;
use crate::split::Behavior;

/// Appends the steps of a sequence, and of the sequences in it.
pub(super) fn flatten<'a>(step: &'a Value, steps: &mut Vec<&'a Value>) {
    match step["pretokenizers"].as_array().filter(|_| step["type"] == "Sequence") {
        Some(inner) => inner.iter().for_each(|step| flatten(step, steps)),
        None if step.is_null() => {}
        None => steps.push(step),
    }
}

/// A split whose pattern could be compiled.
pub(super) struct CompiledSplit {
    pub(super) pattern: Pattern,
    pub(super) behavior: Behavior,
    pub(super) invert: bool,
}

/// The type of a component and its pattern, for an error.
pub(super) fn describe(step: &Value) -> String {
    let name = step["type"].as_str().unwrap_or("of an unknown type");
    match pattern(step) {
        Some(pattern) => format!("pre_tokenizer {name} with pattern `{pattern}`"),
        None => format!("pre_tokenizer {name}"),
    }
}

pub(super) fn pattern(split: &Value) -> Option<&str> {
    (split["type"] == "Split").then(|| split["pattern"]["Regex"].as_str()).flatten()
}
