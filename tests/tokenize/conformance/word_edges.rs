//! Tokenizers whose words are normalized and cut apart: every code point at the end of a word and at its start.

use fastpack_tokenize::Tokenizer;
use serde_json::{Map, Value, json};

use crate::check::Check;
use crate::cuts;
use crate::random::Random;
use crate::small::byte_letters;
use crate::texts;

/// Every normalizer with which words are normalized apart.
fn normalizers() -> Vec<Value> {
    let bert = |clean: bool, ideographs: bool, lowercase: bool| {
        json!({"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": ideographs,
            "strip_accents": null, "lowercase": lowercase})
    };
    let blanks =
        |pattern: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": " "});
    let mut all: Vec<Value> = ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"]
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    all.extend([bert(true, true, true), bert(true, false, false), bert(false, true, true)]);
    all.extend([blanks(r"\s+"), blanks(" {2,}"), blanks(r"\s{2,}"), blanks(" +")]);
    all
}

/// Every pre-tokenizer that removes spaces, in front of letters that stand for bytes.
fn pre_tokenizers() -> Vec<Value> {
    let clip = json!({"type": "Split", "pattern": {"Regex": cuts::CLIP}, "behavior": "Removed", "invert": true});
    let kinds = ["Whitespace", "WhitespaceSplit", "BertPreTokenizer"];
    kinds.iter().map(|kind| json!({"type": kind})).chain([clip]).collect()
}

/// A tokenizer whose ids tell every byte, and where the pieces end.
fn tokenizer(normalizers: &[Value], pre_tokenizer: &Value) -> Tokenizer {
    let letters = byte_letters();
    let names = letters.iter().flat_map(|letter| [letter.to_string(), format!("{letter}</w>")]);
    let vocab: Map<String, Value> =
        names.zip(0..).map(|(token, id): (String, u32)| (token, id.into())).collect();
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [pre_tokenizer, cuts::byte_level(false)]},
        "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": "!", "continuing_subword_prefix": null,
            "end_of_word_suffix": "</w>", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": []},
    });
    Tokenizer::from_json(&file.to_string()).expect("the tokenizer loads")
}

/// Compares code points, one in `stride`, behind every normalizer alone and behind so many pairs of them.
fn run(stride: usize, pairs: usize) {
    let (all, mut random) = (normalizers(), Random::new(11));
    let mut sequences: Vec<Vec<Value>> = all.iter().map(|it| vec![it.clone()]).collect();
    sequences.push(Vec::new());
    sequences
        .extend((0..pairs).map(|_| vec![random.choose(&all).clone(), random.choose(&all).clone()]));
    for sequence in &sequences {
        for pre_tokenizer in pre_tokenizers() {
            let name = format!("{} {pre_tokenizer}", Value::from(sequence.clone()));
            let mut check = Check::new(&name, &tokenizer(sequence, &pre_tokenizer));
            texts::code_points(&mut check, stride);
            texts::exhaustive(&mut check, 12, 2);
        }
    }
}

#[test]
fn words_apart_give_the_ids_of_the_whole_text() {
    run(1009, 6);
}

#[test]
#[ignore = "takes minutes"]
fn words_apart_give_the_ids_of_the_whole_text_at_every_code_point() {
    run(3, 60);
}
