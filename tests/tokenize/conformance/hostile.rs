//! Small random models: shuffled ranks, merges listed twice, entries that no merge reaches, all options.

use fastpack_tokenize::Tokenizer;
use serde_json::{Map, Value, json};

use crate::check::Check;
use crate::cuts::{byte_level, pre_tokenizers};
use crate::random::Random;
use crate::texts;

/// Text from which merges are taken, so that the models have something to do.
const SAMPLE: &str = "the quick brown fox's jumps over the lazy dog, don't 12345 12 3 \n\n  HTTPServer 中文中国 日本 \
    naïve café हिन्दी aaaaaaaa  abababab !!! ... //\n    indent\t\ttabs \u{a0} 😀😀 'll 've THE The tHe ";

/// The character that a byte is written as.
fn letter(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|other| !printable(*other)).count();
    char::from_u32(256 + u32::try_from(before).expect("small")).expect("a letter")
}

/// A random byte-level model.
fn model(random: &mut Random, ignore_merges: bool) -> Value {
    let mut tokens: Vec<String> = (0..=255).map(|byte| letter(byte).to_string()).collect();
    let mut merges: Vec<(String, String)> = Vec::new();
    let mut sample: Vec<String> = SAMPLE.bytes().map(|byte| letter(byte).to_string()).collect();
    for _ in 0..random.below(300) {
        let at = random.below(sample.len() - 1);
        let (left, right) = (sample[at].clone(), sample[at + 1].clone());
        let whole = format!("{left}{right}");
        if whole.chars().count() > 20 {
            continue;
        }
        if !tokens.contains(&whole) {
            tokens.push(whole.clone());
        }
        merges.push((left.clone(), right.clone()));
        // Merging all of the sample makes longer tokens; leaving it makes several ways to one token.
        if !random.once_in(3) {
            let mut index = 0;
            while index + 1 < sample.len() {
                if sample[index] == left && sample[index + 1] == right {
                    sample[index].clone_from(&whole);
                    sample.remove(index + 1);
                }
                index += 1;
            }
        }
    }
    for _ in 0..random.below(20) {
        // Tokens that no merge makes.
        let at = random.below(SAMPLE.len() - 12);
        let token: String =
            SAMPLE.bytes().skip(at).take(random.below(10) + 2).map(letter).collect();
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    match random.below(4) {
        0 => {}
        1 => {
            for index in (1..merges.len()).rev() {
                merges.swap(index, random.below(index + 1));
            }
        }
        _ => {
            for _ in 0..merges.len() / 8 {
                let merge = random.choose(&merges).clone();
                let at = random.below(merges.len());
                merges.insert(at, merge);
            }
        }
    }
    if random.once_in(2) {
        for index in (257..tokens.len()).rev() {
            tokens.swap(index, 256 + random.below(index - 255));
        }
    }
    let mut unknown = Value::Null;
    if random.once_in(3) {
        // Some bytes have no token.
        let absent: Vec<char> = [b'q', 0xF1, 0xF0, 0x98, b' ', 0xE4, 0xC3, b'!', 0xA0]
            .into_iter()
            .filter(|_| random.once_in(2))
            .map(letter)
            .collect();
        let is_known = |token: &str| !token.contains(absent.as_slice());
        tokens.retain(|token| is_known(token));
        merges.retain(|(left, right)| is_known(left) && is_known(right));
        if random.once_in(2) {
            tokens.push("<unk>".to_owned());
            unknown = json!("<unk>");
        }
    }
    let vocab: Map<String, Value> =
        tokens.into_iter().zip(0..).map(|(token, id): (String, u32)| (token, id.into())).collect();
    json!({
        "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": random.once_in(2), "byte_fallback": false,
        "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges,
    })
}

/// Added tokens with every flag, one a prefix of another, some of them words of the text.
fn added_tokens(random: &mut Random, vocab: &Map<String, Value>) -> Value {
    let contents = ["<|a|>", "<|ab|>", "<|a", "fox", "the", "<s>", "café", "12", "\u{301}x", "[X]"];
    let (mut tokens, mut next) = (Vec::new(), vocab.len());
    for content in contents {
        if random.once_in(3) {
            continue;
        }
        let id = vocab.get(content).cloned().unwrap_or_else(|| {
            next += 1;
            json!(next - 1)
        });
        // As most tokens in the wild are.
        let plain = random.once_in(3);
        let mut flag = |often: usize| !plain && random.once_in(often);
        tokens.push(json!({
            "id": id, "content": content,
            "single_word": flag(3), "lstrip": flag(3), "rstrip": flag(3),
            "normalized": flag(2), "special": plain || flag(2),
        }));
    }
    Value::Array(tokens)
}

fn tokenizer(random: &mut Random, pre_tokenizer: &Value, ignore_merges: bool) -> Tokenizer {
    let model = model(random, ignore_merges);
    let vocab = model["vocab"].as_object().expect("the model has a vocabulary");
    let added = if random.once_in(2) { added_tokens(random, vocab) } else { json!([]) };
    let normalizer = match random.below(4) {
        0 => json!({"type": "NFC"}),
        1 => json!({"type": "NFKC"}),
        _ => Value::Null,
    };
    let template = json!({"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
        {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "!", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "!", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"!": {"id": "!", "ids": [1], "tokens": ["!"]}}}]});
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
        "post_processor": if random.once_in(2) { template } else { Value::Null },
        "decoder": byte_level(true), "model": model,
    });
    Tokenizer::from_json(&file.to_string()).expect("the tokenizer loads")
}

const TOKENS: [&str; 10] =
    ["<|a|>", "<|ab|>", "<|a", "fox", "the", "<s>", "café", "12", "\u{301}x", "[X]"];

/// The four ways in which spaces become `▁`, as normalizer and pre-tokenizer.
fn spaces() -> Vec<(&'static str, Value, Value)> {
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let never = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    let metaspace = |scheme: &str, split: bool| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
    vec![
        ("prepend", json!({"type": "Sequence", "normalizers": [prepend, replace]}), Value::Null),
        ("replace", replace.clone(), Value::Null),
        ("replace and split", replace, never),
        ("metaspace first", Value::Null, metaspace("first", false)),
        ("metaspace always", Value::Null, metaspace("always", false)),
        ("metaspace always, split", Value::Null, metaspace("always", true)),
        ("metaspace never", Value::Null, metaspace("never", false)),
    ]
}

/// A random SentencePiece-style tokenizer.
fn sentence(random: &mut Random, normalizer: &Value, pre_tokenizer: &Value) -> Tokenizer {
    let mut tokens: Vec<String> = vec!["<unk>".to_owned(), "▁".to_owned()];
    let fallback = !random.once_in(3);
    if fallback {
        tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    }
    let mut sample: Vec<String> = SAMPLE.replace(' ', "▁").chars().map(String::from).collect();
    for letter in &sample {
        // A few characters are left to the byte tokens or to the unknown one.
        if !tokens.contains(letter) && !random.once_in(12) {
            tokens.push(letter.clone());
        }
    }
    let mut merges: Vec<(String, String)> = Vec::new();
    for _ in 0..random.below(300) {
        let at = random.below(sample.len() - 1);
        let (left, right) = (sample[at].clone(), sample[at + 1].clone());
        let whole = format!("{left}{right}");
        if whole.chars().count() > 14 || !tokens.contains(&left) || !tokens.contains(&right) {
            continue;
        }
        if !tokens.contains(&whole) {
            tokens.push(whole.clone());
        }
        merges.push((left.clone(), right.clone()));
        if !random.once_in(3) {
            sample[at] = whole;
            sample.remove(at + 1);
        }
    }
    for _ in 0..random.below(10) {
        let at = random.below(merges.len().max(1));
        let to = random.below(merges.len().max(1));
        if let Some(merge) = merges.get(at).cloned() {
            if random.once_in(2) { merges.insert(to, merge) } else { merges.swap(at, to) }
        }
    }
    let vocab: Map<String, Value> =
        tokens.into_iter().zip(0..).map(|(token, id): (String, u32)| (token, id.into())).collect();
    let mut added = added_tokens(random, &vocab);
    for token in added.as_array_mut().into_iter().flatten() {
        if random.once_in(2) {
            token["normalized"] = json!(false);
        }
    }
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": if random.once_in(2) { added } else { json!([]) },
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": fallback || random.once_in(2), "byte_fallback": fallback, "ignore_merges": false,
            "vocab": vocab, "merges": merges,
        },
    });
    Tokenizer::from_json(&file.to_string()).expect("the tokenizer loads")
}

/// As [`run`], for SentencePiece-style tokenizers.
fn run_sentences(models: u64, texts: usize) {
    let special: Vec<String> = TOKENS.map(str::to_owned).to_vec();
    let (mut text, mut parts) = (String::new(), 0);
    for (name, normalizer, pre_tokenizer) in spaces() {
        for seed in 0..models {
            let mut random = Random::new(seed * 31 + 7);
            let tokenizer = sentence(&mut random, &normalizer, &pre_tokenizer);
            let mut check = Check::new(&format!("{name}, model {seed}"), &tokenizer);
            check.ids("");
            check.ids(SAMPLE);
            check.masks(SAMPLE);
            texts::exhaustive(&mut check, 13, 2);
            for _ in 0..texts {
                texts::fuzz(&mut random, &special, &mut text);
                check.ids(&text);
                check.masks(&text);
            }
            parts += check.parts;
        }
    }
    assert!(parts > 0, "some parts of texts have ids before the text");
}

#[test]
fn random_sentence_models_give_the_ids_of_the_reference() {
    run_sentences(8, 150);
}

#[test]
#[ignore = "takes minutes"]
fn many_random_sentence_models_give_the_ids_of_the_reference() {
    run_sentences(80, 1_500);
}

/// `models` random models a pre-tokenizer, `texts` random texts each.
fn run(models: u64, texts: usize) {
    let special: Vec<String> = TOKENS.map(str::to_owned).to_vec();
    let (mut text, mut parts) = (String::new(), 0);
    for (name, pre_tokenizer) in pre_tokenizers() {
        for seed in 0..models {
            let mut random = Random::new(seed * 97 + 13);
            let tokenizer = tokenizer(&mut random, &pre_tokenizer, seed % 2 == 0);
            let mut check = Check::new(&format!("{name}, model {seed}"), &tokenizer);
            check.ids("");
            check.ids(SAMPLE);
            check.masks(SAMPLE);
            for _ in 0..texts {
                texts::fuzz(&mut random, &special, &mut text);
                check.ids(&text);
                check.masks(&text);
            }
            parts += check.parts;
        }
    }
    assert!(parts > 0, "some parts of texts have ids before the text");
}

#[test]
fn random_models_give_the_ids_of_the_reference() {
    run(3, 100);
}

#[test]
#[ignore = "takes minutes"]
fn many_random_models_give_the_ids_of_the_reference() {
    run(60, 1_500);
}

#[test]
fn every_pattern_cuts_short_strings_and_code_points_as_the_reference() {
    for (name, pre_tokenizer) in pre_tokenizers() {
        let tokenizer = tokenizer(&mut Random::new(5), &pre_tokenizer, false);
        let mut check = Check::new(name, &tokenizer);
        texts::exhaustive(&mut check, texts::REPRESENTATIVES.len(), 2);
        texts::exhaustive(&mut check, 9, 3);
        texts::code_points(&mut check, 61);
    }
}

#[test]
#[ignore = "takes minutes"]
fn every_pattern_cuts_all_short_strings_and_code_points_as_the_reference() {
    for (name, pre_tokenizer) in pre_tokenizers() {
        for seed in 0..4 {
            let tokenizer = tokenizer(&mut Random::new(seed), &pre_tokenizer, false);
            let mut check = Check::new(name, &tokenizer);
            texts::exhaustive(&mut check, texts::REPRESENTATIVES.len(), 3);
            texts::exhaustive(&mut check, 14, 4);
            texts::code_points(&mut check, 1);
        }
    }
}
