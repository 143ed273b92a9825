//! Files that are wrong: each is an error that names the field, and none panics.

use fastpack_tokenize::{Error, SpecialTokens, Tokenizer};
use serde_json::{Value, json};

use crate::small::{added, all, bytes, encode, load, unigram, words};

/// A change of a sound file, and the name in the message.
type Case = (&'static str, fn() -> Value, fn(&mut Value));

const CASES: &[Case] = &[
    ("model", bytes, |file| file["model"] = Value::Null),
    ("model.vocab", bytes, |file| file["model"]["vocab"] = json!({})),
    ("model.vocab", bytes, |file| file["model"]["vocab"]["a"] = json!(-1)),
    ("model.vocab", bytes, |file| file["model"]["vocab"]["a"] = json!(1e30)),
    ("model.vocab", bytes, |file| file["model"]["vocab"]["a"] = json!(u32::MAX)),
    ("model.vocab", bytes, |file| file["model"]["vocab"]["a"] = json!("1")),
    ("model.vocab", bytes, |file| file["model"]["vocab"] = json!("a")),
    ("model.merges[0]", bytes, |file| file["model"]["merges"][0] = json!(["x", "nowhere"])),
    ("model.merges[0]", bytes, |file| file["model"]["merges"][0] = json!("a")),
    ("model.merges[1]", bytes, |file| file["model"]["merges"][1] = json!("a b c")),
    ("model.merges[2]", bytes, |file| file["model"]["merges"][2] = json!([1, 2])),
    ("model.merges[5]", bytes, |file| file["model"]["merges"][5] = json!(["Ġthe", "Ġthe"])),
    ("model.merges", bytes, |file| file["model"]["merges"] = json!(7)),
    ("model.merges[0]", bytes, |file| file["model"]["continuing_subword_prefix"] = json!("####")),
    ("model.dropout", bytes, |file| file["model"]["dropout"] = json!(0.1)),
    ("added_tokens", bytes, |file| file["added_tokens"] = json!({})),
    ("added_tokens[0].id", bytes, |file| file["added_tokens"][0]["id"] = json!(9999)),
    ("added_tokens[1].id", bytes, |file| file["added_tokens"][1]["id"] = json!(1u64 << 40)),
    ("added_tokens[1].id", bytes, |file| file["added_tokens"][1]["id"] = Value::Null),
    ("added_tokens[1].content", bytes, |file| file["added_tokens"][1]["content"] = json!("")),
    ("added_tokens[3].id", bytes, |file| {
        let tokens = file["added_tokens"].as_array_mut().expect("a list");
        tokens.push(added(3, "<s>", true));
    }),
    ("post_processor.single", bytes, |file| {
        file["post_processor"]["processors"][1]["special_tokens"] = json!({});
    }),
    ("pre_tokenizer.length", bytes, |file| {
        file["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0});
    }),
    ("model.vocab", unigram, |file| file["model"]["vocab"] = json!([])),
    ("model.vocab[1]", unigram, |file| file["model"]["vocab"][1] = json!(["", -1.0])),
    ("model.vocab[1]", unigram, |file| file["model"]["vocab"][1] = json!(["x"])),
    ("model.vocab[1]", unigram, |file| file["model"]["vocab"][1] = json!([1, 2])),
    ("model.unk_id", unigram, |file| file["model"]["unk_id"] = json!(7)),
    ("model.unk_id", unigram, |file| file["model"]["unk_id"] = json!(-1)),
    ("model.vocab", words, |file| file["model"]["vocab"] = Value::Null),
    ("added_tokens", words, |file| {
        file["added_tokens"] = json!([added(8, "\u{327}", false), added(9, "<sep>", false)]);
    }),
];

#[test]
fn a_wrong_field_is_named() {
    for (field, file, change) in CASES {
        let mut file = file();
        change(&mut file);
        match Tokenizer::from_json(&file.to_string()) {
            Err(Error::Malformed { reason, .. }) => {
                assert!(reason.starts_with(&format!("`{field}`:")), "{field}: {reason}");
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn a_token_of_which_the_normalizer_leaves_nothing_is_refused_only_beside_a_longer_one() {
    for others in [&[][..], &["{", "}"]] {
        let mut file = words();
        let names = ["\u{327}"].iter().chain(others).zip(8..);
        file["added_tokens"] = names.map(|(name, id)| added(id, name, false)).collect();
        let tokenizer = load(&file);
        for (text, ids) in [("a", &[1][..]), ("a <", &[1, 0]), ("<", &[0])] {
            assert_eq!(
                encode(&tokenizer, text, &[], SpecialTokens::Omit).ids,
                ids,
                "{others:?} {text}"
            );
        }
    }
}

#[test]
fn what_is_no_tokenizer_is_an_error() {
    for json in [
        "",
        "{",
        "[]",
        "null",
        "1",
        "\"x\"",
        "{}",
        "{\"model\":{}}",
        "{\"model\":{\"type\":\"BPE\"}}",
        "\u{feff}{}",
    ] {
        assert!(matches!(Tokenizer::from_json(json), Err(Error::Malformed { .. })), "{json}");
    }
    let deep = "[".repeat(100_000);
    assert!(Tokenizer::from_json(&deep).is_err());
}

/// Every value of every small file is replaced by something else; a file that still loads must encode or say why not.
#[test]
fn no_change_of_one_value_panics() {
    let replacements = [
        Value::Null,
        json!(0),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{301}▁"),
        json!([]),
        json!({}),
        json!(true),
        json!("("),
    ];
    for (_, file) in all() {
        let mut paths = Vec::new();
        collect(&file, String::new(), &mut paths);
        for path in &paths {
            for replacement in &replacements {
                let mut changed = file.clone();
                *changed.pointer_mut(path).expect("a path of this file") = replacement.clone();
                if let Ok(tokenizer) = Tokenizer::from_json(&changed.to_string()) {
                    let mut out = fastpack_tokenize::Encoding::default();
                    let mut encoder = tokenizer.encoder();
                    for text in ["", "a <s>the é\u{301} 😀 hi\n", "word<|end|>"] {
                        let spans = [0..text.len()];
                        drop(encoder.encode(text, &spans, SpecialTokens::Add, &mut out));
                        drop(encoder.encode(text, &[], SpecialTokens::Omit, &mut out));
                    }
                    drop(tokenizer.decode(&out.ids));
                }
            }
        }
    }
}

/// Paths of a value, at most a few children of the long lists.
fn collect(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().take(12) {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{path}/{key}"), paths);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate().take(3) {
                collect(value, format!("{path}/{index}"), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}

#[test]
fn truncation_in_the_file_is_ignored() {
    let tokenizer = load(&bytes());
    assert!(encode(&tokenizer, "a b c d e", &[], SpecialTokens::Omit).ids.len() > 2);
}

#[test]
fn the_fingerprint_follows_parts_behind_the_model_too() {
    let text = bytes().to_string();
    let plain = Tokenizer::from_json(&text).expect("it loads");
    let mut last = bytes();
    let normalizer = last.as_object_mut().and_then(|file| file.shift_remove("normalizer"));
    last["normalizer"] = normalizer.expect("it has one");
    let behind = load(&last);
    last["normalizer"] = Value::Null;
    assert_ne!(load(&last).fingerprint(), behind.fingerprint());
    // A string that says so is no model.
    let mut named = bytes();
    named["added_tokens"][1]["content"] = json!("\"model\": {");
    assert_ne!(load(&named).fingerprint(), plain.fingerprint());
}

#[test]
fn special_tokens_come_longest_first() {
    assert_eq!(load(&bytes()).special_tokens(), ["<|end|>", "<s>"]);
}

#[test]
fn the_fingerprint_follows_what_decides_the_ids() {
    let plain = load(&bytes());
    let mut same = bytes();
    same["truncation"] = Value::Null;
    same["decoder"] = Value::Null;
    assert_eq!(load(&same).fingerprint(), plain.fingerprint());
    for change in [
        |file: &mut Value| file["normalizer"] = Value::Null,
        |file: &mut Value| file["pre_tokenizer"]["add_prefix_space"] = json!(true),
        |file: &mut Value| file["model"]["ignore_merges"] = json!(true),
        |file: &mut Value| file["added_tokens"][1]["lstrip"] = json!(true),
        |file: &mut Value| file["post_processor"] = Value::Null,
    ] {
        let mut other = bytes();
        change(&mut other);
        assert_ne!(load(&other).fingerprint(), plain.fingerprint());
    }
}
