//! Model folders; that their ids equal those of transformers is tested from Python.

use std::fs;

use fastpack_tokenize::{BuiltTokenizer, Engine, Error, Pretrained};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::small::bytes;

/// A folder with the byte-level tokenizer and these files beside it.
fn folder(files: &[(&str, Value)]) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("tokenizer.json"), bytes().to_string()).expect("a writable folder");
    for (name, content) in files {
        fs::write(dir.path().join(name), content.to_string()).expect("a writable folder");
    }
    dir
}

#[test]
fn a_folder_without_tokenizer_json_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let error = Pretrained::from_dir(dir.path()).expect_err("nothing to load");
    assert!(error.to_string().contains("save_pretrained"), "{error}");
}

#[test]
fn classes_without_rules_are_left_to_transformers_by_name() {
    for class in ["MarianTokenizer", "DebertaV2Tokenizer", "WhisperTokenizerFast"] {
        let dir = folder(&[("tokenizer_config.json", json!({"tokenizer_class": class}))]);
        match Pretrained::from_dir(dir.path()) {
            Err(Error::ForeignClass { class: named, folder }) => {
                assert!(class.starts_with(&named), "{named}");
                assert_eq!(folder, dir.path());
            }
            other => panic!("{class}: {other:?}"),
        }
    }
}

#[test]
fn what_transformers_built_has_its_version_and_a_hash() {
    let dir = folder(&[("generation_config.json", json!({"eos_token_id": 3}))]);
    let built = |splits_special_tokens| BuiltTokenizer {
        transformers: "5.24.0".to_owned(),
        json: bytes().to_string(),
        splits_special_tokens,
        special_tokens: vec![("eos_token".to_owned(), "</s>".to_owned())],
        chat_templates: Vec::new(),
        call: "{}".to_owned(),
    };
    let [plain, split] = [false, true].map(|splits| {
        Pretrained::from_built(dir.path(), built(splits)).expect("a sound tokenizer")
    });
    let known = plain.built_by.clone().expect("it was built");
    assert_eq!(known.transformers, "5.24.0");
    assert_eq!(known.tokenizer_json.len(), 64);
    assert_eq!(
        plain.stop_tokens,
        [plain.tokenizer.id_to_token(3).expect("an id of the vocabulary")]
    );
    assert_eq!(plain.eos_token(), Some("</s>"));
    assert_eq!(plain.tokenizer.engine(), Engine::Compiled);
    assert!(matches!(split.tokenizer.engine(), Engine::Reference { .. }));
}

#[test]
fn remote_code_is_refused() {
    let dir = folder(&[(
        "tokenizer_config.json",
        json!({"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", null]}}),
    )]);
    assert!(matches!(Pretrained::from_dir(dir.path()), Err(Error::UnsupportedClass { .. })));
}

#[test]
fn wrong_files_are_errors() {
    for (name, content) in [
        ("tokenizer_config.json", json!([])),
        ("tokenizer_config.json", json!({"bos_token": 1})),
        ("tokenizer_config.json", json!({"tokenizer_class": 1})),
        ("tokenizer_config.json", json!({"added_tokens_decoder": {"x": {"content": "a"}}})),
        ("tokenizer_config.json", json!({"added_tokens_decoder": {"1": "a"}})),
        ("tokenizer_config.json", json!({"chat_template": 3})),
        ("tokenizer_config.json", json!({"auto_map": 3})),
        ("tokenizer_config.json", json!({"extra_special_tokens": [{}]})),
        ("special_tokens_map.json", json!({"eos_token": {"contents": "x"}})),
        ("added_tokens.json", json!({"a": "b"})),
        ("config.json", json!("x")),
    ] {
        let dir = folder(&[(name, content.clone())]);
        assert!(
            matches!(Pretrained::from_dir(dir.path()), Err(Error::Malformed { .. })),
            "{name} {content}"
        );
    }
}

#[test]
fn named_tokens_are_added_and_mapped() {
    let dir = folder(&[(
        "tokenizer_config.json",
        json!({"eos_token": "<|end|>", "bos_token": "<s>", "image_token": "<image>", "pad_token": null}),
    )]);
    let pretrained = Pretrained::from_dir(dir.path()).expect("a sound folder");
    let names: Vec<_> = pretrained.special_tokens.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["bos_token", "eos_token", "image_token"]);
    assert_eq!(pretrained.eos_token(), Some("<|end|>"));
    assert!(pretrained.tokenizer.token_to_id("<image>").is_some());
}

#[test]
fn a_template_file_replaces_those_of_the_configuration() {
    let dir = folder(&[(
        "tokenizer_config.json",
        json!({"chat_template": [{"name": "rag", "template": "x"}]}),
    )]);
    let names = |dir: &TempDir| -> Vec<String> {
        let pretrained = Pretrained::from_dir(dir.path()).expect("a sound folder");
        pretrained.chat_templates.into_iter().map(|template| template.name).collect()
    };
    assert_eq!(names(&dir), ["rag"]);
    fs::write(dir.path().join("chat_template.jinja"), "y").expect("a writable folder");
    assert_eq!(names(&dir), ["default"]);
}
