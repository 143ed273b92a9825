//! Pre-tokenizers by what they do: patterns are compared by what they match, not by how they are written.

use serde_json::{Value, json};

use super::sentence::{META, Prefix};
use super::unigram;
use crate::pattern::Pattern;
use crate::split::{Behavior, Cl100k, Contraction, MOST_STEPS, O200k, Splitter, Step};
use crate::unicode::bert::PUNCTUATION;
use crate::unicode::bert_bits;

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

/// GPT-2's pattern, as it is written and as `ByteLevel` has it.
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

/// How a pre-tokenizer in front of a byte-level model cuts a stretch.
pub(super) struct Cutting {
    pub(super) splitter: Splitter,
    /// Whether a stretch that begins with no space gets one.
    pub(super) prefix_space: bool,
}

/// The cutting of a pre-tokenizer in front of a byte-level model, or the component that is not known.
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
    let splitter = usual(splits, by_itself).map_or_else(|| by_meaning(splits, by_itself), Ok)?;
    Ok(Cutting { splitter, prefix_space })
}

/// The steps of a sequence, and of sequences in it.
fn flatten<'a>(step: &'a Value, steps: &mut Vec<&'a Value>) {
    match step["pretokenizers"].as_array().filter(|_| step["type"] == "Sequence") {
        Some(inner) => inner.iter().for_each(|step| flatten(step, steps)),
        None if step.is_null() => {}
        None => steps.push(step),
    }
}

/// The splitter of steps that are written as they usually are, without a closer look; GPT-2's pattern is behind them if
/// `gpt2`.
fn usual(splits: &[&Value], gpt2: bool) -> Option<Splitter> {
    match (splits, gpt2) {
        ([], true) => Some(Splitter::Gpt2),
        ([], false) => Some(Splitter::Whole),
        ([digits], true) if digits["type"] == "Digits" => {
            digits["individual_digits"].as_bool().map(|alone| Splitter::DigitsGpt2 { alone })
        }
        ([split], false) if keeps_all(split) => {
            let text = pattern(split)?;
            known().find(|(written, _)| *written == text).map(|(_, splitter)| splitter)
        }
        ([first, second, third], false)
            if [first, second, third].map(|split| pattern(split).filter(|_| isolates(split)))
                == DEEPSEEK.map(Some) =>
        {
            Some(Splitter::DeepSeek)
        }
        _ => None,
    }
}

/// A split whose pattern is understood.
struct Understood {
    pattern: Pattern,
    behavior: Behavior,
    invert: bool,
}

/// The splitter of steps by what their patterns match, however they are written.
fn by_meaning(splits: &[&Value], gpt2: bool) -> Result<Splitter, String> {
    let mut understood = Vec::new();
    for split in splits {
        understood
            .push(understand(split).map_err(|reason| format!("{} ({reason})", describe(split)))?);
    }
    if gpt2 {
        let pattern = Pattern::new(GPT2[0])?;
        understood.push(Understood { pattern, behavior: Behavior::Isolated, invert: false });
    }
    if understood.len() > MOST_STEPS {
        return Err(format!("pre_tokenizer of more than {MOST_STEPS} splits"));
    }
    if understood.iter().all(|split| split.behavior == Behavior::Isolated)
        && let Some(splitter) = scanner(&understood)
    {
        return Ok(splitter);
    }
    let steps = understood.into_iter().map(|Understood { pattern, behavior, invert }| {
        Ok(Step { automaton: pattern.automaton()?, behavior, invert })
    });
    Ok(Splitter::Steps(steps.collect::<Result<Vec<_>, String>>()?.into()))
}

/// The scanner that cuts as some splits do whose matches are all pieces.
fn scanner(splits: &[Understood]) -> Option<Splitter> {
    let means = |split: &Understood, text: &str| {
        Pattern::new(text).is_ok_and(|known| known.means(&split.pattern))
    };
    match splits {
        [split] => known().find(|(text, _)| means(split, text)).map(|(_, splitter)| splitter),
        [_, _, _] => {
            let all = splits.iter().zip(DEEPSEEK).all(|(split, text)| means(split, text));
            all.then_some(Splitter::DeepSeek)
        }
        _ => None,
    }
}

fn understand(split: &Value) -> Result<Understood, String> {
    let one = |is: fn(char) -> bool, behavior| {
        Ok(Understood { pattern: Pattern::one(is)?, behavior, invert: false })
    };
    let kept = |step: &Value| match step["behavior"].as_str() {
        Some("Isolated") => Ok(Behavior::Isolated),
        Some("Contiguous") => Ok(Behavior::Contiguous),
        Some("MergedWithPrevious") => Ok(Behavior::MergedWithPrevious),
        Some("MergedWithNext") => Ok(Behavior::MergedWithNext),
        _ => Err("it removes text".to_owned()),
    };
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
            let removed = split["behavior"] == "Removed";
            let behavior = if removed && invert && pattern.automaton()?.is_total() {
                Behavior::Isolated
            } else {
                kept(split)?
            };
            Ok(Understood { pattern, behavior, invert })
        }
        _ => Err("no compiled engine has it".to_owned()),
    }
}

/// Whether `Punctuation` cuts at a character.
fn is_punctuation(c: char) -> bool {
    bert_bits().get(u32::from(c)) & PUNCTUATION != 0
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

/// `Metaspace`, with the values that its fields have if they are left out.
fn metaspace(pre_tokenizer: &Value) -> Option<Spaces> {
    let fields = pre_tokenizer.as_object()?;
    let known = ["type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"];
    if fields.keys().any(|field| !known.contains(&field.as_str()))
        || pre_tokenizer["type"] != "Metaspace"
        || pre_tokenizer["replacement"] != META
    {
        return None;
    }
    let scheme = match (&pre_tokenizer["add_prefix_space"], fields.get("prepend_scheme")) {
        (Value::Bool(false), _) => "never",
        (_, None) => "always",
        (_, Some(scheme)) => scheme.as_str()?,
    };
    let prefix = match scheme {
        "always" => Prefix::Unspaced,
        "first" => Prefix::First,
        "never" => Prefix::Never,
        _ => return None,
    };
    let split = match &pre_tokenizer["split"] {
        Value::Null => true,
        split => split.as_bool()?,
    };
    Some(Spaces { prefix, split })
}

/// How a pre-tokenizer in front of a unigram model cuts a stretch, or the component that is not known.
pub(super) fn words(pre_tokenizer: &Value) -> Result<(unigram::Cutting, Prefix), String> {
    let mut steps = Vec::new();
    flatten(pre_tokenizer, &mut steps);
    let known = |step: &Value| metaspace(step).ok_or_else(|| describe(step));
    match steps.as_slice() {
        [] => Ok((unigram::Cutting::Whole { meta: false }, Prefix::Never)),
        [step] => {
            let Spaces { prefix, split } = known(step)?;
            Ok((
                if split {
                    unigram::Cutting::Spaces
                } else {
                    unigram::Cutting::Whole { meta: true }
                },
                prefix,
            ))
        }
        [first, step] if first["type"] == "WhitespaceSplit" => {
            let Spaces { prefix, split } = known(step)?;
            if prefix == Prefix::First {
                return Err(
                    "pre_tokenizer Metaspace with prepend_scheme `first` behind another".to_owned()
                );
            }
            Ok((unigram::Cutting::Whitespace { meta: split }, prefix))
        }
        [step, ..] => Err(describe(step)),
    }
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

/// The patterns that have a scanner, as they are usually written; all of these match every character.
fn known() -> impl Iterator<Item = (String, Splitter)> {
    let gpt2 = GPT2.into_iter().map(|text| (text.to_owned(), Splitter::Gpt2));
    let others = CONTRACTIONS.into_iter().flat_map(|contraction| {
        DIGITS.into_iter().flat_map(move |digits| {
            let cl100k = [false, true].map(|marks| cl100k(contraction, digits, marks));
            cl100k.into_iter().chain(o200k(contraction, digits))
        })
    });
    gpt2.chain(others)
}

fn cl100k(
    (contraction_text, contraction): (&str, Contraction),
    (digits_text, digits): (&str, u32),
    marks: bool,
) -> (String, Splitter) {
    let (word, other) = if marks {
        (r"[\p{L}\p{M}]", r"[^\s\p{L}\p{M}\p{N}]")
    } else {
        (r"\p{L}", r"[^\s\p{L}\p{N}]")
    };
    let written = format!(
        r"{contraction_text}[^\r\n\p{{L}}\p{{N}}]?{word}+|{digits_text}| ?{other}+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    );
    (written, Splitter::Cl100k(Cl100k { contraction, digits, marks }))
}

/// Nothing where no such pattern is known.
fn o200k(
    (contraction_text, contraction): (&str, Contraction),
    (digits_text, digits): (&str, u32),
) -> Option<(String, Splitter)> {
    if digits == u32::MAX {
        return None;
    }
    // Here a contraction stays with its word, so it is written behind it and may be left out.
    let suffix = match contraction_text.strip_suffix('|') {
        Some(contraction) if contraction.starts_with("(?i:'") => format!("{contraction}?"),
        Some(_) => return None,
        None => String::new(),
    };
    let written = format!(
        r"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{suffix}|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{suffix}|{digits_text}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    );
    Some((written, Splitter::O200k(O200k { contraction, digits })))
}

#[cfg(test)]
mod tests {
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
        for (text, splitter) in known() {
            let otherwise = text.replace(r"\r\n", "\n\r").replace(r"\p{N}", r"[\p{N}]");
            let found = cutting(&sequence(&otherwise)).expect("it is known").splitter;
            assert_eq!(format!("{found:?}"), format!("{splitter:?}"), "{otherwise}");
        }
    }

    #[test]
    fn deep_seek_is_found_with_line_ends_as_they_are() {
        let split = |text: &str| json!({"type": "Split", "pattern": {"Regex": text.replace(r"\r\n", "\r\n")}, "behavior": "Isolated", "invert": false});
        let mut steps: Vec<Value> = DEEPSEEK.iter().map(|text| split(text)).collect();
        steps.push(json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}));
        let found = cutting(&json!({"type": "Sequence", "pretokenizers": steps}));
        assert!(matches!(found.map(|it| it.splitter), Ok(Splitter::DeepSeek)));
    }
}
