//! `WordPiece` tokenizers: the compiled ones, and the reasons for the others.

use fastpack_tokenize::Engine;
use fastpack_tokenize::SpecialTokens::{Add, Omit};
use serde_json::{Value, json};

use crate::small::{added, encode, load, words};

/// A change of a file that is compiled, and the reason after it.
type Case = (fn(&mut Value), &'static str);

const REFUSED: &[Case] = &[
    (
        |file| {
            file["normalizer"] =
                json!({"type": "Replace", "pattern": {"Regex": r"(a)\1"}, "content": ""});
        },
        r"normalizer Replace with pattern `(a)\1` (`\1`)",
    ),
    (
        |file| {
            file["pre_tokenizer"] = json!({"type": "Split", "pattern": {"Regex": "a*"},
                "behavior": "Removed", "invert": false});
        },
        "pre_tokenizer Split with pattern `a*` (a pattern that matches nothing)",
    ),
    (
        |file| file["model"]["unk_token"] = json!("<unk>"),
        "model WordPiece whose unk_token `<unk>` is not in its vocab",
    ),
    (|file| file["model"]["vocab"]["c"] = json!(3), "model WordPiece with tokens that share an id"),
    (
        |file| file["model"]["vocab"]["a".repeat(70_000)] = json!(8),
        "model WordPiece with a token of 70000 bytes",
    ),
    (
        |file| {
            file["added_tokens"] = json!([added(8, "[X]", false), added(9, "[x]", false)]);
        },
        "added_tokens that match the same",
    ),
];

#[test]
fn a_component_that_is_not_known_is_named() {
    for (change, reason) in REFUSED {
        let mut file = words();
        change(&mut file);
        let expected = Engine::Reference { reason: (*reason).to_owned() };
        assert_eq!(load(&file).engine(), expected, "{reason}");
    }
}

#[test]
fn steps_in_a_sequence_of_their_own_are_compiled() {
    let mut file = words();
    file["normalizer"] = json!({"type": "Sequence", "normalizers": [file["normalizer"]]});
    file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [file["pre_tokenizer"]]});
    assert_eq!(load(&file).engine(), Engine::Compiled);
}

#[test]
fn what_is_taken_away_belongs_to_no_token() {
    let tokenizer = load(&words());
    let out = encode(&tokenizer, "A\u{301}b\0 e.", &[0..1, 1..3, 3..4, 4..6, 6..8], Omit);
    assert_eq!(tokenizer.engine(), Engine::Compiled);
    assert_eq!(out.ids, [1, 4, 5, 7]);
    assert_eq!(out.touched, [0..1, 4..4, 1..2, 4..4, 2..4]);
}

/// Found by comparing all triples of characters that have rules of their own.
#[test]
fn a_mark_moves_over_a_character_that_is_deleted() {
    let mut file = words();
    file["normalizer"]["lowercase"] = json!(false);
    file["normalizer"]["strip_accents"] = json!(true);
    let tokenizer = load(&file);
    let reference = tokenizer.with_reference_engine().expect("the reference loads");
    let text = "\u{301}\u{b}\u{1d165}";
    for span in [0..2, 2..3, 3..7] {
        let found = encode(&tokenizer, text, std::slice::from_ref(&span), Omit);
        assert_eq!(found, encode(&reference, text, &[span], Omit));
    }
}

#[test]
fn an_unknown_word_is_one_token() {
    let tokenizer = load(&words());
    assert_eq!(encode(&tokenizer, "abc ab", &[0..1], Omit).ids, [0, 1, 4]);
    assert_eq!(encode(&tokenizer, &"a".repeat(101), &[], Omit).ids, [0]);
    assert_eq!(encode(&tokenizer, &"a".repeat(100), &[], Omit).ids.len(), 100);
}

#[test]
fn two_tokens_are_put_around_a_text() {
    let mut file = words();
    file["post_processor"] = json!({"type": "BertProcessing", "sep": ["b", 3], "cls": ["a", 1]});
    assert_eq!(encode(&load(&file), "e", &[], Add).ids, [1, 5, 3]);
}

#[test]
fn an_added_token_is_found_and_spelled_as_the_normalizer_leaves_it() {
    let mut file = words();
    file["added_tokens"] = json!([added(8, "Éb", false)]);
    let tokenizer = load(&file);
    assert_eq!(tokenizer.engine(), Engine::Compiled);
    assert_eq!(encode(&tokenizer, "a E\u{301}B a", &[2..4], Omit).ids, [1, 8, 1]);
    assert_eq!(tokenizer.token_to_id("Éb"), Some(8));
    let reference = tokenizer.with_reference_engine().expect("the reference loads");
    assert_eq!(tokenizer.id_to_token(8), reference.id_to_token(8));
}

#[test]
fn the_fingerprint_follows_what_decides_the_words() {
    let plain = load(&words());
    for change in [
        |file: &mut Value| file["model"]["unk_token"] = json!("a"),
        |file: &mut Value| file["model"]["max_input_chars_per_word"] = json!(99),
        |file: &mut Value| file["model"]["continuing_subword_prefix"] = json!("#"),
        |file: &mut Value| file["normalizer"]["strip_accents"] = json!(false),
    ] {
        let mut other = words();
        change(&mut other);
        assert_ne!(load(&other).fingerprint(), plain.fingerprint());
    }
}
