//! Which engine takes a file, where it leaves something out or has another step than most.

use fastpack_tokenize::Engine;
use fastpack_tokenize::SpecialTokens::{Add, Omit};
use serde_json::json;

use crate::small::{all, bytes, encode, load, words};

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
