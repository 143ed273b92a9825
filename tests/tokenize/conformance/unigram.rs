//! Random unigram models, with ties and scores of every size, behind the normalizers that published ones have.

use std::collections::BTreeMap;

use fastpack_tokenize::Tokenizer;
use serde_json::{Value, json};

use crate::check::Check;
use crate::random::Random;
use crate::texts;

/// Text of which pieces are made.
const SAMPLE: &str = "▁the▁quick▁brown▁fox's▁jumps▁over▁12345▁▁don't▁HTTP▁中文中国日本▁naïve▁café▁हिन्दी▁aaaaaaaa\
    ▁ab▁abab!!!▁...▁//▁indent\u{a0}😀▁THE▁tHe▁fi▁ﬁ▁①▁e\u{301}▁\u{200b}\"``";

/// The result of a map of characters for some texts, among them grapheme clusters and deleted characters.
const MAP: [(&str, &str); 24] = [
    ("\n", " "),
    ("\t", " "),
    ("\r", " "),
    ("\u{a0}", " "),
    ("\u{3000}", " "),
    ("\u{200b}", " "),
    ("\0", ""),
    ("\u{7f}", ""),
    ("ﬁ", "fi"),
    ("①", "1"),
    ("½", "1⁄2"),
    ("Ａ", "A"),
    ("e\u{301}", "é"),
    ("a\u{323}\u{301}", "X"),
    ("\u{301}", "´"),
    ("각", "각"),
    ("가\u{11a8}", "각"),
    ("…", "..."),
    ("\u{1f1e6}\u{1f1e7}", "AB"),
    ("㍨", "16点"),
    ("ǅ", "Dž"),
    ("²", "2"),
    ("ſ", "s"),
    ("\u{fffd}", " "),
];

/// The map as `SentencePiece` writes it: a double array whose nodes each have a block of their own, and the texts.
fn charsmap(entries: &[(&str, &str)]) -> String {
    let mut texts = Vec::new();
    let mut tree: BTreeMap<Vec<u8>, Option<u32>> = BTreeMap::from([(Vec::new(), None)]);
    for (from, to) in entries {
        for length in 1..=from.len() {
            tree.entry(from.as_bytes()[..length].to_vec()).or_default();
        }
        let place = u32::try_from(texts.len()).expect("a short text");
        tree.insert(from.as_bytes().to_vec(), Some(place));
        texts.extend_from_slice(to.as_bytes());
        texts.push(0);
    }
    // Each node has the base of its children; it stands at its parent's base with its own byte.
    let bases: BTreeMap<Vec<u8>, u32> =
        tree.keys().cloned().zip((1..).map(|block: u32| block << 8)).collect();
    let mut units = vec![0_u32; (bases.len() + 1) << 8];
    for (node, value) in &tree {
        let base = bases[node];
        let (place, label) = match node.split_last() {
            None => (0, 0),
            Some((byte, parent)) => (bases[parent] ^ u32::from(*byte), u32::from(*byte)),
        };
        let leaf = u32::from(value.is_some()) << 8;
        units[place as usize] = (place ^ base) << 10 | leaf | label;
        if let Some(value) = value {
            units[base as usize] = value | 1 << 31;
        }
    }
    let mut bytes = u32::try_from(units.len() * 4).expect("a small tree").to_le_bytes().to_vec();
    bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes.extend(texts);
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let bits = (word >> (18 - 6 * digit)) & 63;
            out.push(if digit <= chunk.len() { char::from(DIGITS[bits as usize]) } else { '=' });
        }
    }
    out
}

fn replace(pattern: &Value, content: &str) -> Value {
    json!({"type": "Replace", "pattern": pattern, "content": content})
}

/// The normalizers of T5, XLM-R, ALBERT and others, and some of each step.
fn normalizers() -> Vec<(&'static str, Value)> {
    let map = json!({"type": "Precompiled", "precompiled_charsmap": charsmap(&MAP)});
    let blanks = replace(&json!({"Regex": " {2,}"}), "▁");
    let several = |steps: &[Value]| json!({"type": "Sequence", "normalizers": steps});
    let strip = |left: bool, right: bool| json!({"type": "Strip", "strip_left": left, "strip_right": right});
    vec![
        ("none", Value::Null),
        ("precompiled", map.clone()),
        ("xlm-r", several(&[map.clone(), replace(&json!({"Regex": " {2,}"}), " ")])),
        ("t5", several(&[map.clone(), strip(false, true), blanks.clone()])),
        (
            "albert",
            several(&[
                replace(&json!({"String": "``"}), "\""),
                replace(&json!({"String": "''"}), "\""),
                json!({"type": "NFKD"}),
                json!({"type": "StripAccents"}),
                json!({"type": "Lowercase"}),
                map.clone(),
                blanks,
            ]),
        ),
        (
            "nmt",
            several(&[
                json!({"type": "Nmt"}),
                json!({"type": "NFKC"}),
                replace(&json!({"Regex": r"\s+"}), " "),
            ]),
        ),
        (
            "strip",
            several(&[strip(true, true), json!({"type": "Lowercase"}), json!({"type": "NFD"})]),
        ),
        (
            "prepend",
            several(&[
                json!({"type": "Prepend", "prepend": "▁"}),
                replace(&json!({"String": " "}), "▁"),
            ]),
        ),
        (
            "bert",
            several(&[
                json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": null, "lowercase": true}),
                json!({"type": "NFC"}),
            ]),
        ),
    ]
}

fn pre_tokenizers() -> Vec<Value> {
    let metaspace = |scheme: &str, split: bool| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
    let words = |scheme: &str, split: bool| json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace(scheme, split)]});
    vec![
        metaspace("always", true),
        words("always", true),
        metaspace("always", false),
        words("never", false),
        metaspace("never", true),
        json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}),
        words("always", false),
        Value::Null,
    ]
}

/// A random model: pieces of the sample, with few scores or many, and bytes or none.
fn model(random: &mut Random) -> Value {
    let few = random.once_in(2);
    let shift = if random.once_in(5) { 40.0 } else { 0.0 };
    let score = |random: &mut Random| {
        let number =
            f64::from(u32::try_from(random.below(if few { 3 } else { 1 << 20 })).expect("small"));
        let score = if few { -number - 1.0 } else { -number / 65_536.0 };
        json!(score + shift)
    };
    let mut pieces: Vec<String> = vec!["<unk>".to_owned()];
    let fallback = random.once_in(2);
    if fallback {
        pieces.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
        if random.once_in(3) {
            pieces.remove(1 + random.below(250));
        }
    }
    let letters: Vec<char> = SAMPLE.chars().collect();
    for letter in &letters {
        if !random.once_in(8) {
            pieces.push(letter.to_string());
        }
    }
    for _ in 0..random.below(200) {
        let at = random.below(letters.len() - 8);
        pieces.push(letters[at..=at + random.below(8)].iter().collect());
    }
    let mut seen = std::collections::HashSet::new();
    pieces.retain(|piece| seen.insert(piece.clone()));
    let unknown = if random.once_in(3) { pieces.len() - 1 } else { 0 };
    pieces.swap(0, unknown);
    let vocab: Vec<Value> = pieces.iter().map(|piece| json!([piece, score(random)])).collect();
    json!({"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": fallback})
}

fn tokenizer(random: &mut Random, normalizer: &Value, pre_tokenizer: &Value) -> Tokenizer {
    let model = model(random);
    let next = model["vocab"].as_array().map_or(0, Vec::len);
    let mut added = Vec::new();
    for content in ["<s>", "fox", "<mask>", "THE"] {
        let place =
            model["vocab"].as_array().and_then(|all| all.iter().position(|it| it[0] == content));
        if random.once_in(2) {
            let fresh = added
                .iter()
                .filter(|token: &&Value| token["id"].as_u64() >= Some(next as u64))
                .count();
            added.push(json!({
                "id": place.unwrap_or(next + fresh), "content": content, "single_word": random.once_in(4),
                "lstrip": content == "<mask>", "rstrip": false, "normalized": random.once_in(2), "special": true,
            }));
        }
    }
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "model": model,
    });
    Tokenizer::from_json(&file.to_string()).expect("the tokenizer loads")
}

fn run(models: u64, texts: usize) {
    let special: Vec<String> = ["<s>", "fox", "<mask>", "THE"].map(str::to_owned).to_vec();
    let mut text = String::new();
    for (name, normalizer) in normalizers() {
        for (number, pre_tokenizer) in pre_tokenizers().iter().enumerate() {
            for seed in 0..models {
                let mut random = Random::new(seed * 53 + 11 * number as u64 + name.len() as u64);
                let tokenizer = tokenizer(&mut random, &normalizer, pre_tokenizer);
                let mut check =
                    Check::new(&format!("{name}, {pre_tokenizer}, model {seed}"), &tokenizer);
                check.names(&tokenizer);
                check.ids("");
                check.ids(SAMPLE);
                check.masks(&SAMPLE.replace('▁', " "));
                texts::exhaustive(&mut check, 8, 2);
                for _ in 0..texts {
                    texts::fuzz(&mut random, &special, &mut text);
                    check.ids(&text);
                    check.masks(&text);
                }
            }
        }
    }
}

#[test]
fn random_unigram_models_give_the_ids_of_the_reference() {
    run(1, 60);
}

#[test]
#[ignore = "takes minutes"]
fn many_random_unigram_models_give_the_ids_of_the_reference() {
    run(30, 1_000);
}

#[test]
fn every_normalizer_makes_of_code_points_what_the_reference_makes() {
    for (name, normalizer) in normalizers() {
        let tokenizer = tokenizer(&mut Random::new(5), &normalizer, &pre_tokenizers()[0]);
        let mut check = Check::new(name, &tokenizer);
        texts::exhaustive(&mut check, texts::REPRESENTATIVES.len(), 2);
        texts::exhaustive(&mut check, 12, 3);
        texts::code_points(&mut check, 61);
    }
}

#[test]
#[ignore = "takes minutes"]
fn every_normalizer_makes_of_all_code_points_what_the_reference_makes() {
    for (name, normalizer) in normalizers() {
        let tokenizer = tokenizer(&mut Random::new(6), &normalizer, &pre_tokenizers()[0]);
        let mut check = Check::new(name, &tokenizer);
        texts::exhaustive(&mut check, texts::REPRESENTATIVES.len(), 3);
        texts::code_points(&mut check, 1);
    }
}
