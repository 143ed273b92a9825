//! Recognises pre-tokenizers: patterns are compared by their matches, not by their spelling.

mod metaspace;
mod scanners;
mod splits;
mod step_descriptions;

use serde_json::Value;

use super::engines::general;
use super::engines::space_prefix::Prefix;
use crate::split::{Behavior, MOST_STEPS, SplitStep, Splitter};
use metaspace::metaspace;
pub(super) use metaspace::{Spaces, spaces, words};
use splits::{splitter, understand};
use step_descriptions::{Understood, describe, flatten};

/// The pieces that a pre-tokenizer in front of a byte-level model makes of a stretch.
pub(super) struct Cutting {
    pub(super) splitter: Splitter,
    /// True if a stretch that does not begin with a space gets one.
    pub(super) prefix_space: bool,
}

/// The cutting of a pre-tokenizer in front of a byte-level model; the error names the component that is not
/// supported.
pub(super) fn cutting(pre_tokenizer: &Value) -> Result<Cutting, String> {
    let mut steps = Vec::new();
    flatten(pre_tokenizer, &mut steps);
    let Some((last, splits)) = steps.split_last() else {
        return Err("pre_tokenizer: none".to_owned());
    };
    if last["type"] != "ByteLevel" {
        return Err(describe(last));
    }
    let prefix_space = last["add_prefix_space"] == true;
    if prefix_space && !splits.is_empty() {
        return Err("pre_tokenizer ByteLevel with add_prefix_space behind another step".to_owned());
    }
    let by_itself = last.get("use_regex").is_none_or(|flag| *flag == true);
    let splitter = splitter(splits, by_itself)?;
    Ok(Cutting { splitter, prefix_space })
}

/// The stages of any pre-tokenizer, for [`general::General`]; the error names the step that is not supported.
///
/// `normalized` says whether a normalizer runs before the pre-tokenizer.
pub(super) fn stages(
    pre_tokenizer: &Value,
    normalized: bool,
) -> Result<Vec<general::Stage>, String> {
    let mut steps = Vec::new();
    flatten(pre_tokenizer, &mut steps);
    let (mut stages, mut splits) = (Vec::new(), Vec::new());
    let mut rewritten = normalized;
    for step in steps {
        let stage = match step["type"].as_str() {
            Some("Metaspace") => {
                let (replacement, Spaces { prefix, split }) =
                    metaspace(step).ok_or_else(|| describe(step))?;
                if prefix == Prefix::First && rewritten {
                    let name = "pre_tokenizer Metaspace with prepend_scheme `first`";
                    return Err(format!("{name} behind a step that rewrites the text"));
                }
                general::Stage::Metaspace { replacement, prefix, split }
            }
            Some("ByteLevel") => {
                cut(&mut splits, &mut stages)?;
                if step["add_prefix_space"] == true {
                    stages.push(general::Stage::PrefixSpace);
                }
                if step.get("use_regex").is_none_or(|flag| *flag == true) {
                    stages.push(general::Stage::Cut(Splitter::Gpt2));
                }
                general::Stage::Bytes
            }
            Some("UnicodeScripts") => general::Stage::Scripts,
            Some("FixedLength") => {
                let written = step["length"].as_u64().unwrap_or(5);
                let length = usize::try_from(written).ok().filter(|length| *length > 0);
                general::Stage::FixedLength(length.ok_or_else(|| describe(step))?)
            }
            _ => match understand(step) {
                Ok(Understood { pattern, behavior: Behavior::Removed, invert }) => {
                    let (automaton, behavior) = (pattern.automaton()?, Behavior::Removed);
                    general::Stage::Remove(SplitStep { automaton, behavior, invert })
                }
                Ok(_) => {
                    splits.push(step);
                    continue;
                }
                Err(reason) => return Err(format!("{} ({reason})", describe(step))),
            },
        };
        cut(&mut splits, &mut stages)?;
        rewritten |= matches!(stage, general::Stage::Metaspace { .. } | general::Stage::Bytes);
        stages.push(stage);
    }
    cut(&mut splits, &mut stages)?;
    Ok(stages)
}

/// Turns the pending splits, which keep all text, into one stage.
fn cut(splits: &mut Vec<&Value>, stages: &mut Vec<general::Stage>) -> Result<(), String> {
    for together in splits.chunks(MOST_STEPS) {
        let splitter = splitter(together, false)?;
        stages.push(general::Stage::Cut(splitter));
    }
    splits.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sequence(pattern: &str) -> Value {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
        json!({"type": "Sequence", "pretokenizers": [split, byte_level]})
    }

    #[test]
    fn a_pattern_outside_the_language_is_named() {
        let reason = cutting(&sequence("x(?=ab)")).err().expect("the pattern is not known");
        assert_eq!(
            reason,
            "pre_tokenizer Split with pattern `x(?=ab)` (a look-around of more than one character)"
        );
    }

    #[test]
    fn a_pattern_with_a_scanner_is_found_however_it_is_written() {
        for (text, splitter) in scanners::known() {
            let otherwise = text.replace(r"\r\n", "\n\r").replace(r"\p{N}", r"[\p{N}]");
            let found = cutting(&sequence(&otherwise)).expect("it is known").splitter;
            assert_eq!(format!("{found:?}"), format!("{splitter:?}"), "{otherwise}");
        }
    }

    #[test]
    fn deep_seek_is_found_with_line_ends_as_they_are() {
        let split = |text: &str| json!({"type": "Split", "pattern": {"Regex": text.replace(r"\r\n", "\r\n")}, "behavior": "Isolated", "invert": false});
        let mut steps: Vec<Value> = scanners::DEEPSEEK.iter().map(|text| split(text)).collect();
        steps.push(json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}));
        let found = cutting(&json!({"type": "Sequence", "pretokenizers": steps}));
        assert!(matches!(found.map(|it| it.splitter), Ok(Splitter::DeepSeek)));
    }
}
