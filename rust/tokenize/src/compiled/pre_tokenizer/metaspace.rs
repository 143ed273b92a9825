//! `SentencePiece`'s treatment of spaces: `Metaspace`, and the normalizers that do the same.

use serde_json::{Value, json};

use super::step_descriptions::{describe, flatten};
use crate::compiled::engines::space_prefix::{META_CHARACTER, SpacePrefix};
use crate::compiled::engines::unigram;

/// The treatment of spaces by a SentencePiece-style tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compiled) struct MetaspaceSpaces {
    /// The rule for putting a space in front of a stretch.
    pub(in crate::compiled) prefix: SpacePrefix,
    /// True if the text is cut before every space.
    pub(in crate::compiled) split: bool,
}

/// The treatment of spaces, if normalizer and pre-tokenizer turn spaces into `▁` in one of four known ways.
pub(in crate::compiled) fn spaces(
    normalizer: &Value,
    pre_tokenizer: &Value,
) -> Option<MetaspaceSpaces> {
    const META: char = META_CHARACTER;
    let prepend = json!({"type": "Prepend", "prepend": META});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": META});
    // At this step no space is left that the pattern could match.
    let never = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    if normalizer.is_null() {
        let (replacement, spaces) = metaspace(pre_tokenizer)?;
        return (replacement == META_CHARACTER).then_some(spaces);
    }
    if !pre_tokenizer.is_null() && *pre_tokenizer != never {
        return None;
    }
    let prefix = if *normalizer == json!({"type": "Sequence", "normalizers": [prepend, replace]}) {
        SpacePrefix::Always
    } else if *normalizer == replace
        || *normalizer == json!({"type": "Sequence", "normalizers": [replace]})
    {
        SpacePrefix::Never
    } else {
        return None;
    };
    Some(MetaspaceSpaces { prefix, split: false })
}

/// The fields of `Metaspace`, with defaults for missing ones: the character that it writes for a space, and
/// the treatment of spaces.
pub(super) fn metaspace(pre_tokenizer: &Value) -> Option<(char, MetaspaceSpaces)> {
    let fields = pre_tokenizer.as_object()?;
    let known = ["type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"];
    if fields.keys().any(|field| !known.contains(&field.as_str()))
        || pre_tokenizer["type"] != "Metaspace"
    {
        return None;
    }
    let replacement = pre_tokenizer["replacement"].as_str()?.chars().next()?;
    let scheme = match (&pre_tokenizer["add_prefix_space"], fields.get("prepend_scheme")) {
        (Value::Bool(false), _) => "never",
        (_, None) => "always",
        (_, Some(scheme)) => scheme.as_str()?,
    };
    let prefix = match scheme {
        "always" => SpacePrefix::Unspaced,
        "first" => SpacePrefix::First,
        "never" => SpacePrefix::Never,
        _ => return None,
    };
    let split = match &pre_tokenizer["split"] {
        Value::Null => true,
        split => split.as_bool()?,
    };
    Some((replacement, MetaspaceSpaces { prefix, split }))
}

/// The cutting and the treatment of spaces of a pre-tokenizer in front of a unigram model; the error names
/// the component that is not supported.
pub(in crate::compiled) fn words(
    pre_tokenizer: &Value,
) -> Result<(unigram::UnigramCuts, SpacePrefix), String> {
    let mut steps = Vec::new();
    flatten(pre_tokenizer, &mut steps);
    let known = |step: &Value| {
        let found = metaspace(step).filter(|(replacement, _)| *replacement == META_CHARACTER);
        found.map(|(_, spaces)| spaces).ok_or_else(|| describe(step))
    };
    match steps.as_slice() {
        [] => Ok((unigram::UnigramCuts::Whole { meta: false }, SpacePrefix::Never)),
        [step] => {
            let MetaspaceSpaces { prefix, split } = known(step)?;
            Ok((
                if split {
                    unigram::UnigramCuts::Spaces
                } else {
                    unigram::UnigramCuts::Whole { meta: true }
                },
                prefix,
            ))
        }
        [first, step] if first["type"] == "WhitespaceSplit" => {
            let MetaspaceSpaces { prefix, split } = known(step)?;
            if prefix == SpacePrefix::First {
                return Err(
                    "pre_tokenizer Metaspace with prepend_scheme `first` after another".to_owned()
                );
            }
            Ok((unigram::UnigramCuts::Whitespace { meta: split }, prefix))
        }
        [step, ..] => Err(describe(step)),
    }
}
