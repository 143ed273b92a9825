//! Tests of [`Tokenizer`] and [`Encoder`].

use serde_json::Value;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Encoder, Tokenizer};
use crate::encoding::{Encoding, SpecialTokens};
use crate::error::{Error, Result};
use crate::hugging_face;

/// A byte-level tokenizer without merges; if `split`, it cuts words as GPT-2 does.
fn bytes(split: bool) -> Tokenizer {
    byte_level(split, &[])
}

/// A byte-level tokenizer whose only merge makes `aa`, and which cuts no words.
fn pairs() -> Tokenizer {
    byte_level(false, &["aa"])
}

fn byte_level(split: bool, pairs: &[&str]) -> Tokenizer {
    let json = byte_level_file(split, pairs, &Value::Null);
    Tokenizer::from_json(&json).expect("a tokenizer of bytes")
}

fn byte_level_file(split: bool, pairs: &[&str], post_processor: &Value) -> String {
    let (_, letters) = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
        .into_iter()
        .fold((0, serde_json::Map::new()), |(id, mut all), letter| {
            all.insert(letter.to_string(), id.into());
            (id + 1, all)
        });
    let mut letters = letters;
    for pair in pairs {
        letters.insert((*pair).to_owned(), letters.len().into());
    }
    let merges: Vec<String> = pairs.iter().map(|it| format!("{} {}", &it[..1], &it[1..])).collect();
    let json = serde_json::json!({
        "version": "1.0", "added_tokens": [], "normalizer": null,
        "post_processor": post_processor,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": split},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": letters, "merges": merges},
    });
    json.to_string()
}

#[test]
fn the_tokens_around_texts_are_known_before_the_reference_engine_is_built() {
    let template = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "!", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "B", "type_id": 1}},
            {"SpecialToken": {"id": "!", "type_id": 1}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "special_tokens": {"!": {"id": "!", "ids": [7, 9], "tokens": ["!", "!"]}},
    });
    let bert = serde_json::json!({"type": "BertProcessing", "sep": ["!", 3], "cls": ["!", 4]});
    for post_processor in [Value::Null, template, bert] {
        let json = byte_level_file(true, &[], &post_processor);
        for texts in [1, 2] {
            for special in [SpecialTokens::Add, SpecialTokens::Omit] {
                let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer of bytes");
                let found = tokenizer.frame(texts, special).expect("tokens around texts");
                assert!(tokenizer.reference.engine.get().is_none(), "the engine was built");
                let built = tokenizer.with_reference_engine().expect("the same tokenizer");
                assert_eq!(found, built.frame(texts, special).expect("tokens around texts"));
            }
        }
    }
}

fn encode(encoder: &mut Encoder, text: &str) -> Result<usize> {
    let mut out = Encoding::default();
    encoder.encode(text, &[], SpecialTokens::Omit, &mut out).map(|()| out.ids.len())
}

#[test]
fn a_text_that_is_too_long_is_refused_and_the_next_is_not() {
    let mut encoder = bytes(true).encoder();
    encoder.longest = 100;
    assert_eq!(encode(&mut encoder, &"a ".repeat(50)).expect("as long as it may be"), 100);
    let refused = encode(&mut encoder, &"a ".repeat(51)).expect_err("longer than that");
    assert_eq!(
        refused.to_string(),
        "cannot encode the text: it has 102 bytes, and at most 100 are taken; split the text"
    );
    assert_eq!(encode(&mut encoder, "a").expect("short again"), 1);
}

#[test]
fn a_word_that_is_too_long_is_refused_and_the_next_is_not() {
    let mut encoder = bytes(false).encoder();
    encoder.memory.as_mut().expect("it is compiled").longest_word = 100;
    // Without merges, every boundary is a safe cut; with the merge of `aa`, a run of `a` has none.
    assert_eq!(encode(&mut encoder, &"ab".repeat(500)).expect("cut in many places"), 1000);
    let mut encoder = pairs().encoder();
    encoder.memory.as_mut().expect("it is compiled").longest_word = 100;
    assert_eq!(encode(&mut encoder, &"a".repeat(100)).expect("as long as it may be"), 50);
    let refused = encode(&mut encoder, &"a".repeat(101)).expect_err("longer than that");
    assert!(refused.to_string().contains("a word without a place to cut it has 101 bytes"));
    assert_eq!(encode(&mut encoder, "aaa").expect("short again"), 2);
}

#[test]
fn encoding_ends_when_it_is_stopped() {
    let flag = Arc::new(AtomicBool::new(false));
    let mut encoder = bytes(true).encoder().stopped_by(Arc::clone(&flag));
    assert_eq!(encode(&mut encoder, "a b").expect("nobody stops it"), 3);
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(encode(&mut encoder, "a b"), Err(Error::Stopped)));
}

#[test]
fn the_reference_engine_refuses_what_it_has_no_memory_for() {
    let tokenizer = bytes(true).with_reference_engine().expect("the same tokenizer");
    let text = "a ".repeat(hugging_face::LONGEST / 2 + 1);
    let refused = encode(&mut tokenizer.encoder(), &text).expect_err("too long");
    assert!(refused.to_string().contains("reference engine"), "{refused}");
    let (mut ids, mut offsets) = (Vec::new(), Vec::new());
    let refused =
        tokenizer.encoder().encode_with_offsets(&text, SpecialTokens::Omit, &mut ids, &mut offsets);
    assert!(refused.is_err());
}
