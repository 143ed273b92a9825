//! [`ByteLevelPreTokenizer`]: the cutting of a pre-tokenizer in front of a byte-level model.

use serde_json::Value;

use super::splits::splitter;
use super::step_descriptions::{describe, flatten};
use crate::split::Splitter;

/// The pieces that a pre-tokenizer in front of a byte-level model makes of a stretch.
pub(in crate::compiled) struct ByteLevelPreTokenizer {
    pub(in crate::compiled) splitter: Splitter,
    /// True if a stretch that does not begin with a space gets one.
    pub(in crate::compiled) prefix_space: bool,
}

/// The cutting of a pre-tokenizer in front of a byte-level model; the error names the component that is not
/// supported.
pub(in crate::compiled) fn cutting(pre_tokenizer: &Value) -> Result<ByteLevelPreTokenizer, String> {
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
        return Err("pre_tokenizer ByteLevel with add_prefix_space after another step".to_owned());
    }
    let by_itself = last.get("use_regex").is_none_or(|flag| *flag == true);
    let splitter = splitter(splits, by_itself)?;
    Ok(ByteLevelPreTokenizer { splitter, prefix_space })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::scanners;
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
