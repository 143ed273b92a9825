//! The steps that split at a pattern: `Split`, and the steps that can be written as a `Split`.

use serde_json::Value;

use super::scanners::{GPT2, scanner, usual};
use super::step_descriptions::{CompiledSplit, describe};
use crate::pattern::{Length, Pattern};
use crate::split::{Behavior, MOST_STEPS, SplitStep, Splitter};
use crate::unicode::bert::PUNCTUATION;
use crate::unicode::{self, bert_bits};

/// The splitter of a sequence of splits that keep all text. If `gpt2`, GPT-2's pattern follows them.
pub(super) fn splitter(splits: &[&Value], gpt2: bool) -> Result<Splitter, String> {
    usual(splits, gpt2).map_or_else(|| by_meaning(splits, gpt2), Ok)
}

/// The splitter of steps by the matches of their patterns, in any spelling.
fn by_meaning(splits: &[&Value], gpt2: bool) -> Result<Splitter, String> {
    let mut understood = Vec::new();
    for split in splits {
        understood
            .push(understand(split).map_err(|reason| format!("{} ({reason})", describe(split)))?);
    }
    if gpt2 {
        let pattern = Pattern::new(GPT2[0])?;
        understood.push(CompiledSplit { pattern, behavior: Behavior::Isolated, invert: false });
    }
    if understood.len() > MOST_STEPS {
        return Err(format!("pre_tokenizer of more than {MOST_STEPS} splits"));
    }
    let removing = understood.iter().position(|split| split.behavior == Behavior::Removed);
    if let Some(split) = removing.and_then(|index| splits.get(index)) {
        return Err(format!("{} (it removes text)", describe(split)));
    }
    if understood.iter().all(|split| split.behavior == Behavior::Isolated)
        && let Some(splitter) = scanner(&understood)
    {
        return Ok(splitter);
    }
    let steps = understood.into_iter().map(|CompiledSplit { pattern, behavior, invert }| {
        Ok(SplitStep { automaton: pattern.automaton()?, behavior, invert })
    });
    Ok(Splitter::Steps(steps.collect::<Result<Vec<_>, String>>()?.into()))
}

/// The split that a step is equivalent to; the error says why there is none.
pub(super) fn understand(split: &Value) -> Result<CompiledSplit, String> {
    let one = |is: fn(char) -> bool, behavior| {
        Ok(CompiledSplit { pattern: Pattern::one(is)?, behavior, invert: false })
    };
    let kept = |step: &Value| match step["behavior"].as_str() {
        Some("Isolated") => Ok(Behavior::Isolated),
        Some("Contiguous") => Ok(Behavior::Contiguous),
        Some("MergedWithPrevious") => Ok(Behavior::MergedWithPrevious),
        Some("MergedWithNext") => Ok(Behavior::MergedWithNext),
        Some("Removed") => Ok(Behavior::Removed),
        _ => Err("its behavior is of an unknown kind".to_owned()),
    };
    let keeping = |kinds: &[(&dyn Fn(char) -> bool, Length)]| {
        let pattern = Pattern::of_kinds(kinds)?;
        Ok(CompiledSplit { pattern, behavior: Behavior::Removed, invert: true })
    };
    let is_word = |c: char| unicode::words().get(u32::from(c)) != 0;
    match split["type"].as_str() {
        Some("Digits") => match split["individual_digits"].as_bool() {
            Some(true) => one(char::is_numeric, Behavior::Isolated),
            _ => one(char::is_numeric, Behavior::Contiguous),
        },
        Some("Punctuation") => {
            let behavior =
                if split["behavior"].is_null() { Behavior::Isolated } else { kept(split)? };
            one(is_punctuation, behavior)
        }
        Some("Split") => {
            let pattern = match (&split["pattern"]["Regex"], &split["pattern"]["String"]) {
                (Value::String(text), _) => Pattern::new(text)?,
                (_, Value::String(text)) => Pattern::literal(text)?,
                _ => return Err("its pattern is of an unknown kind".to_owned()),
            };
            let invert = split["invert"] == true;
            let behavior = match kept(split)? {
                // The pattern matches all text, so nothing is left that could be removed.
                Behavior::Removed if invert && pattern.automaton()?.is_total() => {
                    return Ok(CompiledSplit {
                        pattern,
                        behavior: Behavior::Isolated,
                        invert: false,
                    });
                }
                behavior => behavior,
            };
            Ok(CompiledSplit { pattern, behavior, invert })
        }
        Some("Whitespace") => keeping(&[
            (&is_word, Length::Run),
            (&|c| !is_word(c) && !c.is_whitespace(), Length::Run),
        ]),
        Some("WhitespaceSplit") => keeping(&[(&|c: char| !c.is_whitespace(), Length::Run)]),
        Some("CharDelimiterSplit") => {
            let delimiter = split["delimiter"].as_str().and_then(|it| it.chars().next());
            let delimiter = delimiter.ok_or("it has no delimiter")?;
            keeping(&[(&|c| c != delimiter, Length::Run)])
        }
        Some("BertPreTokenizer") => keeping(&[
            (&|c| !c.is_whitespace() && !is_punctuation(c), Length::Run),
            (&|c| !c.is_whitespace(), Length::One),
        ]),
        _ => Err("no compiled engine has it".to_owned()),
    }
}

/// True if `Punctuation` cuts at a character.
fn is_punctuation(c: char) -> bool {
    bert_bits().get(u32::from(c)) & PUNCTUATION != 0
}
