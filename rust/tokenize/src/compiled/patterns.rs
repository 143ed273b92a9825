//! Pre-tokenizers by their exact structure and pattern text.

use serde_json::{Value, json};

use super::sentence::{META, Prefix};
use crate::split::{Cl100k, Contraction, O200k, Splitter};

/// Ways to write the contractions, with what they mean.
const CONTRACTIONS: [(&str, Contraction); 5] = [
    ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|", Contraction::Insensitive),
    ("'(?i:[sdmt]|ll|ve|re)|", Contraction::Insensitive),
    ("'s|'t|'re|'ve|'m|'ll|'d|", Contraction::Sensitive),
    ("'(?:[sdmt]|ll|ve|re)|", Contraction::Sensitive),
    ("", Contraction::None),
];

/// Ways to write how many digits a piece holds.
const DIGITS: [(&str, u32); 4] =
    [(r"\p{N}", 1), (r"\p{N}{1,2}", 2), (r"\p{N}{1,3}", 3), (r"\p{N}+", u32::MAX)];

/// GPT-2's pattern, as `Split` and in the two ways it is written.
const GPT2: [&str; 2] = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
];

/// `DeepSeek` V3's three patterns.
const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

/// The splitter of a pre-tokenizer in front of a byte-level model, or the component that is not known.
pub(super) fn splitter(pre_tokenizer: &Value) -> Result<Splitter, String> {
    let steps = match pre_tokenizer["type"].as_str() {
        Some("Sequence") => {
            pre_tokenizer["pretokenizers"].as_array().map_or(&[][..], Vec::as_slice)
        }
        _ => std::slice::from_ref(pre_tokenizer),
    };
    let Some((last, steps)) = steps.split_last() else {
        return Err("pre_tokenizer: none".to_owned());
    };
    if last["type"] != "ByteLevel" {
        return Err(describe(last));
    }
    if last["add_prefix_space"] != false {
        return Err("pre_tokenizer ByteLevel with add_prefix_space".to_owned());
    }
    let use_regex = last.get("use_regex").is_none_or(|flag| *flag == true);
    match (steps, use_regex) {
        ([], true) => Ok(Splitter::Gpt2),
        ([], false) => Ok(Splitter::Whole),
        ([digits], true) if digits["type"] == "Digits" => {
            match digits["individual_digits"].as_bool() {
                Some(alone) => Ok(Splitter::DigitsGpt2 { alone }),
                None => Err(describe(digits)),
            }
        }
        ([split], false) => pattern(split)
            .and_then(by_pattern)
            .filter(|_| keeps_all(split))
            .ok_or_else(|| describe(split)),
        ([first, second, third], false)
            if [first, second, third].map(|split| pattern(split).filter(|_| isolates(split)))
                == DEEPSEEK.map(Some) =>
        {
            Ok(Splitter::DeepSeek)
        }
        ([step, ..], _) => Err(describe(step)),
    }
}

/// How a SentencePiece-style tokenizer treats spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spaces {
    /// When a space is put before a stretch.
    pub(super) prefix: Prefix,
    /// Whether the text is cut before every space.
    pub(super) split: bool,
}

/// The four ways in which normalizer and pre-tokenizer turn spaces into `▁`.
pub(super) fn spaces(normalizer: &Value, pre_tokenizer: &Value) -> Option<Spaces> {
    let prepend = json!({"type": "Prepend", "prepend": META});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": META});
    // No space is left for it to match.
    let never = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    if normalizer.is_null() {
        return metaspace(pre_tokenizer);
    }
    if !pre_tokenizer.is_null() && *pre_tokenizer != never {
        return None;
    }
    let prefix = if *normalizer == json!({"type": "Sequence", "normalizers": [prepend, replace]}) {
        Prefix::Always
    } else if *normalizer == replace
        || *normalizer == json!({"type": "Sequence", "normalizers": [replace]})
    {
        Prefix::Never
    } else {
        return None;
    };
    Some(Spaces { prefix, split: false })
}

fn metaspace(pre_tokenizer: &Value) -> Option<Spaces> {
    let fields = pre_tokenizer.as_object()?;
    let known = ["type", "replacement", "prepend_scheme", "split"];
    if fields.keys().any(|field| !known.contains(&field.as_str()))
        || pre_tokenizer["type"] != "Metaspace"
        || pre_tokenizer["replacement"] != META
    {
        return None;
    }
    let prefix = match fields.get("prepend_scheme")?.as_str()? {
        "always" => Prefix::Unspaced,
        "first" => Prefix::First,
        "never" => Prefix::Never,
        _ => return None,
    };
    Some(Spaces { prefix, split: fields.get("split")?.as_bool()? })
}

/// The component's name, and the pattern that sets it apart.
fn describe(step: &Value) -> String {
    let name = step["type"].as_str().unwrap_or("of an unknown type");
    match pattern(step) {
        Some(pattern) => format!("pre_tokenizer {name} with pattern `{pattern}`"),
        None => format!("pre_tokenizer {name}"),
    }
}

fn pattern(split: &Value) -> Option<&str> {
    (split["type"] == "Split").then(|| split["pattern"]["Regex"].as_str()).flatten()
}

fn isolates(split: &Value) -> bool {
    split["behavior"] == "Isolated" && split["invert"] == false
}

/// Whether a pattern that leaves nothing out gives its matches as pieces.
fn keeps_all(split: &Value) -> bool {
    isolates(split) || split["behavior"] == "Removed" && split["invert"] == true
}

/// The scanner of a pattern; all of these match every character.
fn by_pattern(text: &str) -> Option<Splitter> {
    if GPT2.contains(&text) {
        return Some(Splitter::Gpt2);
    }
    for (contraction_text, contraction) in CONTRACTIONS {
        for (digits_text, digits) in DIGITS {
            for marks in [false, true] {
                let (word, other) = if marks {
                    (r"[\p{L}\p{M}]", r"[^\s\p{L}\p{M}\p{N}]")
                } else {
                    (r"\p{L}", r"[^\s\p{L}\p{N}]")
                };
                let written = format!(
                    r"{contraction_text}[^\r\n\p{{L}}\p{{N}}]?{word}+|{digits_text}| ?{other}+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                );
                if text == written {
                    return Some(Splitter::Cl100k(Cl100k { contraction, digits, marks }));
                }
            }
            if digits == u32::MAX {
                continue;
            }
            // Here a contraction stays with its word, so it is written behind it and may be left out.
            let suffix = match contraction_text.strip_suffix('|') {
                Some(contraction) if contraction.starts_with("(?i:'") => format!("{contraction}?"),
                Some(_) => continue,
                None => String::new(),
            };
            let written = format!(
                r"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{suffix}|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{suffix}|{digits_text}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            );
            if text == written {
                return Some(Splitter::O200k(O200k { contraction, digits }));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_pattern_is_named() {
        let split = json!({"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": false});
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
        let sequence = json!({"type": "Sequence", "pretokenizers": [split, byte_level]});
        let reason = splitter(&sequence).expect_err("the pattern is not known");
        assert_eq!(reason, "pre_tokenizer Split with pattern `x+`");
    }

    #[test]
    fn a_space_in_front_of_every_text_is_not_guessed_at() {
        let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true});
        let reason = splitter(&byte_level).expect_err("the option is not known");
        assert_eq!(reason, "pre_tokenizer ByteLevel with add_prefix_space");
    }
}
