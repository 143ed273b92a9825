//! [`stages`]: the steps of any pre-tokenizer, one after the other.

use serde_json::Value;

use super::metaspace::{MetaspaceSpaces, metaspace};
use super::splits::{splitter, understand};
use super::step_descriptions::{CompiledSplit, describe, flatten};
use crate::compiled::engines::general;
use crate::compiled::engines::space_prefix::SpacePrefix;
use crate::split::{Behavior, MOST_STEPS, SplitStep, Splitter};

/// The stages of any pre-tokenizer, for [`general::GeneralEngine`]; the error names the step that is not supported.
///
/// `normalized` says whether a normalizer runs before the pre-tokenizer.
pub(in crate::compiled) fn stages(
    pre_tokenizer: &Value,
    normalized: bool,
) -> Result<Vec<general::PreTokenizerStage>, String> {
    let mut steps = Vec::new();
    flatten(pre_tokenizer, &mut steps);
    let (mut stages, mut splits) = (Vec::new(), Vec::new());
    let mut rewritten = normalized;
    for step in steps {
        let stage = match step["type"].as_str() {
            Some("Metaspace") => {
                let (replacement, MetaspaceSpaces { prefix, split }) =
                    metaspace(step).ok_or_else(|| describe(step))?;
                if prefix == SpacePrefix::First && rewritten {
                    let name = "pre_tokenizer Metaspace with prepend_scheme `first`";
                    return Err(format!("{name} after a step that rewrites the text"));
                }
                general::PreTokenizerStage::Metaspace { replacement, prefix, split }
            }
            Some("ByteLevel") => {
                cut(&mut splits, &mut stages)?;
                if step["add_prefix_space"] == true {
                    stages.push(general::PreTokenizerStage::PrefixSpace);
                }
                if step.get("use_regex").is_none_or(|flag| *flag == true) {
                    stages.push(general::PreTokenizerStage::Cut(Splitter::Gpt2));
                }
                general::PreTokenizerStage::Bytes
            }
            Some("UnicodeScripts") => general::PreTokenizerStage::Scripts,
            Some("FixedLength") => {
                let written = step["length"].as_u64().unwrap_or(5);
                let length = usize::try_from(written).ok().filter(|length| *length > 0);
                general::PreTokenizerStage::FixedLength(length.ok_or_else(|| describe(step))?)
            }
            _ => match understand(step) {
                Ok(CompiledSplit { pattern, behavior: Behavior::Removed, invert }) => {
                    let (automaton, behavior) = (pattern.automaton()?, Behavior::Removed);
                    general::PreTokenizerStage::Remove(SplitStep { automaton, behavior, invert })
                }
                Ok(_) => {
                    splits.push(step);
                    continue;
                }
                Err(reason) => return Err(format!("{} ({reason})", describe(step))),
            },
        };
        cut(&mut splits, &mut stages)?;
        rewritten |= matches!(
            stage,
            general::PreTokenizerStage::Metaspace { .. } | general::PreTokenizerStage::Bytes
        );
        stages.push(stage);
    }
    cut(&mut splits, &mut stages)?;
    Ok(stages)
}

/// Turns the pending splits, which keep all text, into one stage.
fn cut(
    splits: &mut Vec<&Value>,
    stages: &mut Vec<general::PreTokenizerStage>,
) -> Result<(), String> {
    for together in splits.chunks(MOST_STEPS) {
        let splitter = splitter(together, false)?;
        stages.push(general::PreTokenizerStage::Cut(splitter));
    }
    splits.clear();
    Ok(())
}
