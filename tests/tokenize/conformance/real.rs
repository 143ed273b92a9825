//! Everything, on real tokenizers and corpora.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fastpack_tokenize::{Engine, Tokenizer};

use crate::check::Check;
use crate::random::Random;
use crate::texts;

/// Each corpus is cut anew at this many offsets.
const OFFSETS: usize = 70;

/// Bytes of a corpus that are cut at every offset.
const RESLICED: usize = 150_000;

/// The number of random texts.
const FUZZ: usize = 60_000;

fn data() -> Option<PathBuf> {
    env::var_os("FASTPACK_DATA").map(PathBuf::from)
}

fn tokenizers() -> Vec<(String, Tokenizer)> {
    let Some(data) = data() else { return Vec::new() };
    let only = env::var("FASTPACK_TOKENIZER").ok();
    let mut found = Vec::new();
    for entry in fs::read_dir(data.join("tokenizers")).expect("the folder is readable") {
        let folder = entry.expect("the folder is readable").path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let json = fs::read_to_string(folder.join("tokenizer.json")).expect("the file is readable");
        let tokenizer = Tokenizer::from_json(&json).expect("the tokenizer loads");
        if tokenizer.engine() == Engine::Compiled {
            found.push((name, tokenizer));
        }
    }
    found
}

/// The texts of a corpus: each line as it is, JSON and all, and its strings unescaped.
fn documents(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the file is readable");
    text.lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            match value.get("text").and_then(serde_json::Value::as_str) {
                Some(text) => text.to_owned(),
                None => line.replace("\\n", "\n").replace("\\\"", "\""),
            }
        })
        .collect()
}

fn for_each(run: impl Fn(&str, &Tokenizer, &mut Check)) {
    for (name, tokenizer) in tokenizers() {
        let mut check = Check::new(&name, &tokenizer);
        run(&name, &tokenizer, &mut check);
        #[expect(clippy::print_stderr, reason = "the counts are the result")]
        {
            let Check { texts, bytes, parts, .. } = check;
            eprintln!("{name}: {texts} texts, {bytes} bytes, {parts} parts, no difference");
        }
    }
}

#[test]
#[ignore = "needs FASTPACK_DATA and minutes"]
fn every_code_point_in_context() {
    for_each(|_, _, check| texts::code_points(check, 1));
}

#[test]
#[ignore = "needs FASTPACK_DATA and minutes"]
fn all_short_strings() {
    for_each(|_, _, check| {
        for length in 1..=3 {
            texts::exhaustive(check, texts::REPRESENTATIVES.len(), length);
        }
        texts::exhaustive(check, 18, 4);
        texts::exhaustive(check, 13, 5);
    });
}

#[test]
#[ignore = "needs FASTPACK_DATA and minutes"]
fn every_token_as_text() {
    for_each(|_, tokenizer, check| {
        let reference = tokenizer.with_reference_engine().expect("the reference loads");
        assert_eq!(tokenizer.vocab_size(), reference.vocab_size());
        assert_eq!(tokenizer.special_tokens(), reference.special_tokens());
        for id in 0..u32::try_from(tokenizer.vocab_size()).expect("ids are small") {
            let text = tokenizer.decode(&[id]).expect("the id is known");
            assert_eq!(text, reference.decode(&[id]).expect("the id is known"));
            assert_eq!(tokenizer.id_to_token(id), reference.id_to_token(id));
            check.ids(&text);
            check.ids(&format!(" {text}"));
            check.masks(&format!("x{text}{text} {text}y"));
            if let Some(written) = tokenizer.id_to_token(id) {
                check.ids(&written);
            }
        }
    });
}

#[test]
#[ignore = "needs FASTPACK_DATA and minutes"]
fn grammar_fuzz() {
    for_each(|_, tokenizer, check| {
        let mut random = Random::new(1);
        let mut text = String::new();
        for _ in 0..FUZZ {
            texts::fuzz(&mut random, tokenizer.special_tokens(), &mut text);
            check.ids(&text);
            check.masks(&text);
        }
    });
}

#[test]
#[ignore = "needs FASTPACK_DATA and minutes"]
fn corpora() {
    let Some(data) = data() else { return };
    for_each(|_, _, check| {
        for corpus in ["text-en", "text-multi", "chat"] {
            let documents = documents(&data.join("corpora").join(format!("{corpus}.jsonl")));
            for (index, document) in documents.iter().enumerate() {
                if index % 8 == 0 { check.masks(document) } else { check.ids(document) }
            }
        }
    });
}

#[test]
#[ignore = "needs FASTPACK_DATA and minutes"]
fn corpora_cut_at_every_offset() {
    let Some(data) = data() else { return };
    for_each(|_, _, check| {
        for corpus in ["text-en", "text-multi", "chat"] {
            let documents = documents(&data.join("corpora").join(format!("{corpus}.jsonl")));
            let stride = documents.len() / 60 + 1;
            let mut text: String = documents.into_iter().step_by(stride).collect();
            let mut end = RESLICED.min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            for offset in 0..OFFSETS {
                if text.is_char_boundary(offset) {
                    check.ids(&text[offset..]);
                }
            }
        }
    });
}

#[test]
#[ignore = "needs FASTPACK_DATA and minutes"]
fn hostile_words() {
    for_each(|_, _, check| {
        let mut random = Random::new(2);
        check.ids(&"a".repeat(200_000));
        check.ids(&" ".repeat(100_000));
        check.ids(&"ab".repeat(50_000));
        check.ids(&"\u{301}".repeat(1_000));
        for size in [100, 1_000, 20_000] {
            let letters: String = (0..size)
                .map(|_| char::from(b'a' + u8::try_from(random.below(26)).expect("a letter")))
                .collect();
            check.ids(&letters);
            let base64: String = (0..size)
                .map(|_| {
                    char::from(*random.choose(b"ABCDEFabcdefghijklmnopqrstuvwxyz0123456789+/"))
                })
                .collect();
            check.ids(&base64);
            let ideographs: String = (0..size)
                .filter_map(|_| {
                    char::from_u32(0x4E00 + u32::try_from(random.below(0x51A5)).expect("small"))
                })
                .collect();
            check.ids(&ideographs);
        }
    });
}
