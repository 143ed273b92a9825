//! The engine of a file that leaves something out, or has another step than most.

use fastpack_tokenize::Engine;
use fastpack_tokenize::SpecialTokens::{Add, Omit};
use serde_json::json;

use crate::small::{all, bytes, encode, load, pieces, words};

const TEXT: &str = "the hill, héllo ab  the\nthe 12 a.b.";

#[test]
fn every_kind_of_model_is_compiled() {
    for (name, file) in all() {
        assert_eq!(load(&file).engine(), Engine::Compiled, "{name}");
    }
}

#[test]
fn a_model_without_a_type_is_the_one_whose_fields_it_has() {
    for (name, mut file) in all() {
        let typed = encode(&load(&file), TEXT, &[], Omit);
        file["model"].as_object_mut().expect("a model").shift_remove("type");
        let untyped = load(&file);
        assert_eq!(untyped.engine(), Engine::Compiled, "{name}");
        assert_eq!(encode(&untyped, TEXT, &[], Omit), typed, "{name}");
        let reference = untyped.with_reference_engine().expect("the reference loads");
        assert_eq!(encode(&reference, TEXT, &[], Omit), typed, "{name}");
    }
}

#[test]
fn roberta_and_bert_put_one_token_on_each_side() {
    for kind in ["RobertaProcessing", "BertProcessing"] {
        for mut file in [bytes(), words()] {
            file["post_processor"] = json!({"type": kind, "sep": ["b", 3], "cls": ["a", 1],
                "trim_offsets": true, "add_prefix_space": false});
            let tokenizer = load(&file);
            assert_eq!(tokenizer.engine(), Engine::Compiled, "{kind}");
            let found = encode(&tokenizer, TEXT, &[4..8, 9..14], Add);
            assert_eq!((found.ids[0], found.ids.last()), (1, Some(&3)), "{kind}");
            let reference = tokenizer.with_reference_engine().expect("the reference loads");
            assert_eq!(encode(&reference, TEXT, &[4..8, 9..14], Add), found, "{kind}");
        }
    }
}

#[test]
fn deep_seek_is_compiled_with_line_ends_written_as_they_are() {
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let mut file = bytes();
    file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        split(r"\p{N}{1,3}"),
        split("[一-龥\u{3040}-ゟ゠-ヿ]+"),
        split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    ]});
    let tokenizer = load(&file);
    assert_eq!(tokenizer.engine(), Engine::Compiled);
    let reference = tokenizer.with_reference_engine().expect("the reference loads");
    let text = "a!b 1234\r\n\r\n 中文ab\n  x";
    assert_eq!(encode(&tokenizer, text, &[], Omit), encode(&reference, text, &[], Omit));
}

/// Loads a tokenizer that must be compiled, and compares its encoding of a text with the reference.
fn compare(name: &str, file: &serde_json::Value, text: &str) {
    let tokenizer = load(file);
    assert_eq!(tokenizer.engine(), Engine::Compiled, "{name}");
    let reference = tokenizer.with_reference_engine().expect("the reference loads");
    let spans = [1..5, 8..13];
    assert_eq!(
        encode(&tokenizer, text, &spans, Add),
        encode(&reference, text, &spans, Add),
        "{name}"
    );
}

#[test]
fn clip_is_compiled() {
    let mut file = bytes();
    let letters = file["model"]["vocab"].as_object().cloned().expect("a vocabulary");
    let vocab = letters.keys().flat_map(|token| [token.clone(), format!("{token}</w>")]);
    let vocab =
        vocab.chain(["the</w>".to_owned(), "hill</w>".to_owned(), "<|endoftext|>".to_owned()]);
    file["model"]["vocab"] = vocab
        .enumerate()
        .map(|(id, token)| (token, json!(id)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    file["model"]["merges"] = json!(["h e</w>", "t he</w>", "l l", "l l</w>", "h i", "hi ll</w>"]);
    file["model"]["vocab"]["he</w>"] = json!(900);
    file["model"]["vocab"]["hi"] = json!(901);
    file["model"]["vocab"]["ll"] = json!(902);
    file["model"]["vocab"]["ll</w>"] = json!(903);
    file["model"]["end_of_word_suffix"] = json!("</w>");
    file["model"]["unk_token"] = json!("<|endoftext|>");
    file["added_tokens"] = json!([]);
    file["post_processor"] = serde_json::Value::Null;
    file["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Lowercase"}]});
    file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"},
            "behavior": "Removed", "invert": true},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]});
    compare("clip", &file, "The HILL's\n\n the</w> 12 hill  héllo ");
}

#[test]
fn sentence_piece_merges_without_bytes_are_compiled() {
    let mut file = pieces();
    for (fuse, split) in [(true, true), (false, true), (true, false)] {
        file["model"]["byte_fallback"] = json!(false);
        file["model"]["fuse_unk"] = json!(fuse);
        file["normalizer"] = serde_json::Value::Null;
        file["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": split});
        compare("no bytes", &file, "hi there, ab hi zzab中中b  ");
    }
}

/// Neighbours of tokens are kept as hashes, some of which collide: no such chance may undo the cut before a space.
#[test]
fn metaspace_splits_before_every_space() {
    let letters: Vec<String> = ('\u{4E00}'..).take(200).map(String::from).collect();
    let behind = letters.iter().map(|letter| [letter.clone(), "▁".into()]);
    let pairs = letters.windows(2).map(|pair| [pair[0].clone(), pair[1].clone()]);
    let merges: Vec<_> = behind.chain(pairs).collect();
    let wholes = merges.iter().map(|pair| pair.concat());
    let mut file = pieces();
    let vocabulary = file["model"]["vocab"].as_object_mut().expect("a vocabulary");
    for token in letters.iter().cloned().chain(wholes) {
        vocabulary.insert(token, json!(vocabulary.len()));
    }
    file["model"]["merges"] = json!(merges);
    file["normalizer"] = serde_json::Value::Null;
    file["pre_tokenizer"] =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    compare("every space", &file, &letters.join(" "));
}

#[test]
fn words_alone_are_compiled_behind_any_cutting() {
    for step in [
        json!({"type": "Whitespace"}),
        json!({"type": "WhitespaceSplit"}),
        json!({"type": "CharDelimiterSplit", "delimiter": ","}),
        json!({"type": "UnicodeScripts"}),
        json!({"type": "FixedLength", "length": 3}),
        serde_json::Value::Null,
    ] {
        let mut file = bytes();
        for part in ["normalizer", "post_processor", "decoder"] {
            file[part] = serde_json::Value::Null;
        }
        file["added_tokens"] = json!([]);
        file["pre_tokenizer"] = step.clone();
        file["model"] = json!({"type": "WordLevel", "unk_token": "[UNK]",
            "vocab": {"[UNK]": 0, "the": 1, ",": 2, "hill": 3, " hill": 4, " he": 5}});
        compare(&step.to_string(), &file, "the hill, the, the\n\nthe he² αβγ!");
    }
}

#[test]
fn a_token_of_thousands_of_bytes_is_compiled() {
    let mut file = bytes();
    file["added_tokens"] = json!([]);
    file["post_processor"] = serde_json::Value::Null;
    let (mut token, mut id) = ("Ġ".to_owned(), 1_000);
    for _ in 0..12 {
        file["model"]["merges"].as_array_mut().expect("merges").push(json!([token, token]));
        token = token.repeat(2);
        file["model"]["vocab"][&token] = json!(id);
        id += 1;
    }
    compare("spaces", &file, &format!("a{}the", " ".repeat(9_001)));
}

#[test]
fn word_pieces_are_compiled_behind_any_steps() {
    let mut file = words();
    file["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]});
    file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Digits", "individual_digits": true}]});
    compare("word pieces", &file, "AB. bÉa e12 . ab");
}
