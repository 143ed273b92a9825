//! Random tokenizers of every family: any normalizers, pre-tokenizers and model beside each other.

use std::collections::HashSet;

use fastpack_tokenize::{Engine, Tokenizer};
use serde_json::{Map, Value, json};

use crate::check::Check;
use crate::cuts;
use crate::random::Random;
use crate::texts;

/// Text from which tokens are taken.
const SAMPLE: &str = "the quick brown fox's jumps over 12345 don't HTTP 中文中国 naïve café हिन्दी aaaaaaaa abab!!! ... // \
    ▁the▁fox \u{a0}😀 _x_ αβγ αa ア日本 THE tHe e\u{301} Ġthe Ã© < > </w> @@x";

/// A step of a normalizer.
fn normalizer(random: &mut Random) -> Value {
    let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    match random.below(14) {
        0 => json!({"type": "NFC"}),
        1 => json!({"type": "NFKC"}),
        2 => json!({"type": "NFD"}),
        3 | 4 => json!({"type": "Lowercase"}),
        5 => json!({"type": "StripAccents"}),
        6 => json!({"type": "Strip", "strip_left": random.once_in(2), "strip_right": true}),
        7 => replace(json!({"Regex": r"\s+"}), " "),
        8 => replace(json!({"String": " "}), "▁"),
        9 => json!({"type": "Prepend", "prepend": "▁"}),
        10 => json!({"type": "ByteLevel"}),
        11 => json!({"type": "Nmt"}),
        12 => json!({"type": "NFKD"}),
        _ => {
            json!({"type": "BertNormalizer", "clean_text": random.once_in(2), "lowercase": random.once_in(2),
            "handle_chinese_chars": random.once_in(2), "strip_accents": null})
        }
    }
}

/// A step of a pre-tokenizer; `first` if none stands before it.
fn pre_tokenizer(random: &mut Random, first: bool) -> Value {
    let behavior = *random.choose(&[
        "Isolated",
        "Removed",
        "Contiguous",
        "MergedWithNext",
        "MergedWithPrevious",
    ]);
    let pattern = match random.below(6) {
        0 => json!({"String": *random.choose(&[" ", "the", "12", "▁", ".", "</w>"])}),
        1 => json!({"Regex": cuts::CLIP}),
        _ => {
            json!({"Regex": *random.choose(&[r"\s+", r"\p{L}+|\p{N}", r"\w+|[^\w\s]+", r"\d", r" ?\p{L}+", "a(?!b)", r"\S+"])})
        }
    };
    let schemes: &[&str] = if first { &["always", "never", "first"] } else { &["always", "never"] };
    let scheme = *random.choose(schemes);
    match random.below(14) {
        0 | 1 => json!({"type": "Whitespace"}),
        2 => json!({"type": "WhitespaceSplit"}),
        3 => json!({"type": "BertPreTokenizer"}),
        4 | 5 => {
            json!({"type": "Metaspace", "replacement": *random.choose(&["▁", "▁", "_"]), "prepend_scheme": scheme,
            "split": random.once_in(2)})
        }
        6 | 7 => {
            json!({"type": "ByteLevel", "add_prefix_space": random.once_in(2), "trim_offsets": true,
            "use_regex": random.once_in(2)})
        }
        8 => json!({"type": "Punctuation", "behavior": behavior}),
        9 => json!({"type": "Digits", "individual_digits": random.once_in(2)}),
        10 => {
            json!({"type": "CharDelimiterSplit", "delimiter": *random.choose(&[" ", "▁", "a", "中"])})
        }
        11 => json!({"type": "UnicodeScripts"}),
        12 => json!({"type": "FixedLength", "length": 1 + random.below(6)}),
        _ => {
            json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": random.once_in(2)})
        }
    }
}

/// The sample as it is, in small letters, and as byte-level steps write it.
fn samples() -> Vec<String> {
    let bytes = crate::small::byte_letters();
    let spelled = SAMPLE.bytes().map(|byte| bytes[usize::from(byte)]).collect();
    vec![SAMPLE.to_owned(), SAMPLE.to_lowercase(), spelled, SAMPLE.replace(' ', "▁")]
}

/// Random parts of the samples, without spaces.
fn parts(random: &mut Random, count: usize, longest: usize) -> Vec<String> {
    let samples = samples();
    let part = |_| {
        let letters: Vec<char> = random.choose(&samples).chars().collect();
        let at = random.below(letters.len() - longest);
        letters[at..=at + random.below(longest)].iter().filter(|c| **c != ' ').collect()
    };
    (0..count).map(part).filter(|part: &String| !part.is_empty()).collect()
}

/// All characters of the samples, but for some of them.
fn letters(random: &mut Random) -> Vec<String> {
    let mut seen = HashSet::new();
    let all: Vec<char> = samples().iter().flat_map(|it| it.chars().collect::<Vec<_>>()).collect();
    let drop = 1 + random.below(30);
    all.into_iter()
        .filter(|c| seen.insert(*c) && !random.once_in(drop + 1))
        .map(String::from)
        .collect()
}

fn numbered(tokens: Vec<String>) -> Map<String, Value> {
    let mut vocab = Map::new();
    for token in tokens {
        let id = vocab.len();
        vocab.entry(token).or_insert_with(|| id.into());
    }
    vocab
}

/// A random BPE model with every option.
fn bpe(random: &mut Random) -> Value {
    let prefix = *random.choose(&["", "", "", "##", "é"]);
    let suffix = *random.choose(&["", "", "</w>", "@"]);
    let affixed = !prefix.is_empty() || !suffix.is_empty();
    let mut tokens = vec!["<unk>".to_owned(), "a".to_owned()];
    let mut forms: Vec<String> = Vec::new();
    for letter in letters(random) {
        for form in [
            letter.clone(),
            format!("{prefix}{letter}"),
            format!("{letter}{suffix}"),
            format!("{prefix}{letter}{suffix}"),
        ] {
            if !random.once_in(20) {
                forms.push(form);
            }
        }
    }
    tokens.extend(forms.iter().cloned());
    let fallback = !affixed && random.once_in(3);
    if fallback {
        let missing = random.once_in(3);
        let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
        tokens.extend(bytes.filter(|_| !missing || !random.once_in(20)));
    }
    let mut merges = Vec::new();
    let mut made = HashSet::new();
    // Pairs of tokens that stand beside each other in the samples, so that merges happen.
    let texts: Vec<String> = parts(random, 200, 6);
    for text in &texts {
        let whole: Vec<char> = text.chars().collect();
        for cut in 1..whole.len() {
            let left: String = whole[..cut].iter().collect();
            let right: String = whole[cut..].iter().collect();
            let starts = random.once_in(2);
            let left = if starts { left } else { format!("{prefix}{left}") };
            let right = format!("{prefix}{right}");
            let right = if random.once_in(2) { right } else { format!("{right}{suffix}") };
            let (has_left, has_right) = (forms.contains(&left), forms.contains(&right));
            if has_left && has_right && made.insert((left.clone(), right.clone())) {
                let joined = format!("{left}{}", &right[prefix.len()..]);
                tokens.push(joined.clone());
                forms.push(joined);
                merges.push(json!([left, right]));
            }
        }
    }
    tokens.extend(parts(random, 20, 5));
    let unknown = match random.below(4) {
        0 => Value::Null,
        _ => json!("<unk>"),
    };
    json!({"type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": prefix,
        "end_of_word_suffix": suffix, "fuse_unk": random.once_in(2), "byte_fallback": fallback,
        "ignore_merges": !affixed && random.once_in(3), "vocab": numbered(tokens), "merges": merges})
}

/// A random model of any kind.
fn model(random: &mut Random) -> Value {
    let unknown = "<unk>".to_owned();
    match random.below(6) {
        0 => {
            let tokens = [vec![unknown], letters(random), parts(random, 200, 5)].concat();
            json!({"type": "WordLevel", "unk_token": "<unk>", "vocab": numbered(tokens)})
        }
        1 => {
            let (one, other) = (parts(random, 200, 4), parts(random, 200, 4));
            let within = other.iter().chain(&letters(random)).map(|it| format!("##{it}")).collect();
            let tokens = [vec![unknown], letters(random), one, within].concat();
            json!({"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": *random.choose(&[100, 5]), "vocab": numbered(tokens)})
        }
        2 => {
            let tokens = [vec![unknown], letters(random), parts(random, 200, 5)].concat();
            let vocab: Vec<Value> = numbered(tokens)
                .into_iter()
                .map(|(token, _)| {
                    json!([token, -f64::from(u8::try_from(random.below(9)).expect("small"))])
                })
                .collect();
            json!({"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": random.once_in(2)})
        }
        _ => bpe(random),
    }
}

fn tokenizer(random: &mut Random) -> (String, Tokenizer) {
    let normalizers: Vec<Value> =
        (0..random.below(4).saturating_sub(1)).map(|_| normalizer(random)).collect();
    let first = normalizers.is_empty();
    let pre_tokenizers: Vec<Value> =
        (0..random.below(4)).map(|number| pre_tokenizer(random, first && number == 0)).collect();
    let model = model(random);
    let next = model["vocab"]
        .as_object()
        .map_or_else(|| model["vocab"].as_array().map_or(0, Vec::len), Map::len);
    let mut added = Vec::new();
    for content in ["<s>", "<|end|>"] {
        if random.once_in(2) {
            added.push(json!({"id": next + added.len(), "content": content, "single_word": false, "lstrip": random.once_in(4),
                "rstrip": false, "normalized": random.once_in(3), "special": true}));
        }
    }
    let several =
        |kind: &str, name: &str, mut steps: Vec<Value>, random: &mut Random| match steps.len() {
            0 => Value::Null,
            1 if random.once_in(2) => steps.swap_remove(0),
            _ => {
                let mut sequence = Map::new();
                sequence.insert("type".to_owned(), kind.into());
                sequence.insert(name.to_owned(), steps.into());
                Value::Object(sequence)
            }
        };
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": several("Sequence", "normalizers", normalizers, random),
        "pre_tokenizer": several("Sequence", "pretokenizers", pre_tokenizers, random),
        "post_processor": null, "decoder": null, "model": model,
    });
    let mut options = file["model"].clone();
    if let Value::Object(options) = &mut options {
        options.retain(|name, _| name != "vocab" && name != "merges");
    }
    let name = format!("{} {} {options}", file["normalizer"], file["pre_tokenizer"]);
    let tokenizer = Tokenizer::from_json(&file.to_string());
    (name.clone(), tokenizer.unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Compares so many random tokenizers on so many texts each.
fn run(seeds: std::ops::Range<u64>, texts: usize) {
    let special: Vec<String> = ["<s>", "<|end|>", "</w>"].map(str::to_owned).to_vec();
    let (count, mut refused) = (seeds.end - seeds.start, 0);
    let mut text = String::new();
    for seed in seeds {
        let mut random = Random::new(seed * 31 + 5);
        let (name, tokenizer) = tokenizer(&mut random);
        if let Engine::Reference { reason } = tokenizer.engine() {
            assert!(!reason.is_empty(), "{name}");
            refused += 1;
            continue;
        }
        let mut check = Check::new(&format!("{seed}: {name}"), &tokenizer);
        check.ids("");
        check.ids(SAMPLE);
        check.masks(SAMPLE);
        texts::exhaustive(&mut check, 9, 2);
        for _ in 0..texts {
            texts::fuzz(&mut random, &special, &mut text);
            check.ids(&text);
            check.masks(&text);
        }
    }
    assert!(refused * 10 < count, "{refused} of {count} tokenizers are refused");
}

#[test]
fn random_tokenizers_of_every_family_give_the_ids_of_the_reference() {
    run(0..200, 20);
}

#[test]
#[ignore = "takes minutes"]
fn many_random_tokenizers_of_every_family_give_the_ids_of_the_reference() {
    run(1_000..3_000, 60);
}
