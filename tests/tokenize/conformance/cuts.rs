//! Pre-tokenizers in front of byte-level models: those of published tokenizers, and others of the language.

use serde_json::{Value, json};

const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const SENSITIVE: &str = r"'s|'t|'re|'ve|'m|'ll|'d|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const CLIP: &str =
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";
const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

pub(crate) fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

pub(crate) fn pre_tokenizers() -> Vec<(&'static str, Value)> {
    let single = |pattern: &str| json!({"type": "Sequence", "pretokenizers": [split(pattern), byte_level(false)]});
    let digits = |alone: bool| {
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": alone}, byte_level(true)]})
    };
    let inverted = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": CL100K}, "behavior": "Removed", "invert": true}, byte_level(false)]});
    let deepseek = json!({"type": "Sequence", "pretokenizers": [
        split(DEEPSEEK[0]), split(DEEPSEEK[1]), split(DEEPSEEK[2]), byte_level(false)]});
    vec![
        ("gpt2", byte_level(true)),
        ("gpt2 as split", single(GPT2)),
        ("cl100k", single(CL100K)),
        ("cl100k inverted", inverted),
        ("qwen", single(QWEN)),
        ("qwen 3.5", single(QWEN35)),
        ("case-sensitive", single(SENSITIVE)),
        ("o200k", single(O200K)),
        ("tekken", single(TEKKEN)),
        ("deepseek", deepseek),
        ("digits alone", digits(true)),
        ("digits in runs", digits(false)),
        ("whole", byte_level(false)),
        ("gpt2 with a space in front", spaced(true)),
        ("whole with a space in front", spaced(false)),
        ("cl100k with line ends as they are", single(&CL100K.replace(r"\r\n", "\r\n"))),
        ("tiktoken's cl100k", single(TIKTOKEN)),
        ("kimi", single(KIMI)),
        (
            "ideographs",
            single(r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}&&[^\p{Han}]]+|\p{N}{1,3}|\s+(?!\S)|\s+|."),
        ),
        ("words alone", single(r"\p{L}+")),
        ("edges of words", single(r"\b\w+\b|^\s+|\d+$")),
        (
            "steps",
            several(&[
                behaved(r"\p{N}", "Isolated"),
                behaved(r"[\r\n]", "Isolated"),
                behaved(r"\s?\p{L}+", "Isolated"),
                behaved(r"\s?[!-/:-~！-／：-～‘-‟　-。]+", "Isolated"),
                behaved(r"\s+$", "Isolated"),
                behaved("[一-龥ࠀ-一가-퟿]+", "Isolated"),
                json!({"type": "Digits", "individual_digits": true}),
            ]),
        ),
        (
            "merged with next",
            several(&[behaved(" ", "MergedWithNext"), behaved(r"\p{P}", "MergedWithPrevious")]),
        ),
        (
            "merged with previous",
            several(&[
                behaved(r"\s", "MergedWithPrevious"),
                behaved(r"\p{N}{1,2}", "MergedWithNext"),
            ]),
        ),
        (
            "contiguous",
            several(&[behaved(r"\p{P}|\p{S}", "Contiguous"), behaved(r"\p{L}\p{L}", "Contiguous")]),
        ),
        (
            "inverted",
            several(&[
                inverted_as("MergedWithPrevious"),
                inverted_as("MergedWithNext"),
                inverted_as("Contiguous"),
            ]),
        ),
        (
            "literals",
            several(&[
                literal(" "),
                literal("12"),
                json!({"type": "Punctuation", "behavior": "Contiguous"}),
            ]),
        ),
        (
            "digits and gpt2",
            several(&[json!({"type": "Digits", "individual_digits": false}), split(GPT2)]),
        ),
    ]
}

/// tiktoken's own text: a possessive interval is a repetition of the interval to Oniguruma.
const TIKTOKEN: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

fn spaced(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": use_regex})
}

fn behaved(pattern: &str, behavior: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": false})
}

fn inverted_as(behavior: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": r"\p{L}+|\p{N}"}, "behavior": behavior, "invert": true})
}

fn literal(text: &str) -> Value {
    json!({"type": "Split", "pattern": {"String": text}, "behavior": "MergedWithPrevious", "invert": false})
}

fn several(steps: &[Value]) -> Value {
    let steps: Vec<Value> = steps.iter().cloned().chain([byte_level(false)]).collect();
    json!({"type": "Sequence", "pretokenizers": steps})
}
