//! The pre-tokenizers that have a hand-written scanner, in the spellings that are in use.

use serde_json::Value;

use super::step_descriptions::{CompiledSplit, pattern};
use crate::pattern::Pattern;
use crate::split::{Cl100k, Contraction, O200k, Splitter};

/// A part of a pattern, with its meaning.
#[derive(Clone, Copy)]
struct Spelling<T> {
    text: &'static str,
    meaning: T,
}

const fn spelling<T: Copy>(text: &'static str, meaning: T) -> Spelling<T> {
    Spelling { text, meaning }
}

const CONTRACTIONS: [Spelling<Contraction>; 5] = [
    spelling("(?i:'s|'t|'re|'ve|'m|'ll|'d)|", Contraction::Insensitive),
    spelling("'(?i:[sdmt]|ll|ve|re)|", Contraction::Insensitive),
    spelling("'s|'t|'re|'ve|'m|'ll|'d|", Contraction::Sensitive),
    spelling("'(?:[sdmt]|ll|ve|re)|", Contraction::Sensitive),
    spelling("", Contraction::None),
];

/// The spellings of a run of digits, with the most digits of a piece.
const DIGITS: [Spelling<u32>; 4] = [
    spelling(r"\p{N}", 1),
    spelling(r"\p{N}{1,2}", 2),
    spelling(r"\p{N}{1,3}", 3),
    spelling(r"\p{N}+", u32::MAX),
];

/// GPT-2's pattern, as files write it and as `ByteLevel` has it.
pub(super) const GPT2: [&str; 2] = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
];

/// `DeepSeek` V3's three patterns.
pub(super) const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

/// The splitter of steps in a known spelling, found by comparing strings. If `gpt2`, GPT-2's pattern follows
/// the steps.
pub(super) fn usual(splits: &[&Value], gpt2: bool) -> Option<Splitter> {
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

/// The scanner that cuts as a sequence of splits does, if every match of each is a piece.
pub(super) fn scanner(splits: &[CompiledSplit]) -> Option<Splitter> {
    let means = |split: &CompiledSplit, text: &str| {
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

fn isolates(split: &Value) -> bool {
    split["behavior"] == "Isolated" && split["invert"] == false
}

/// True if a split gives each match as a piece, provided that its pattern leaves nothing out.
fn keeps_all(split: &Value) -> bool {
    isolates(split) || split["behavior"] == "Removed" && split["invert"] == true
}

/// The patterns that have a scanner, in their known spellings. Each of them matches every character.
pub(super) fn known() -> impl Iterator<Item = (String, Splitter)> {
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
    contraction: Spelling<Contraction>,
    digits: Spelling<u32>,
    marks: bool,
) -> (String, Splitter) {
    let Spelling { text: contraction_text, meaning: contraction } = contraction;
    let Spelling { text: digits_text, meaning: digits } = digits;
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

/// O200k's pattern with these variants; `None` if no such pattern is known.
fn o200k(contraction: Spelling<Contraction>, digits: Spelling<u32>) -> Option<(String, Splitter)> {
    let Spelling { text: contraction_text, meaning: contraction } = contraction;
    let Spelling { text: digits_text, meaning: digits } = digits;
    if digits == u32::MAX {
        return None;
    }
    // In this pattern a contraction stays with its word: it is an optional suffix.
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
