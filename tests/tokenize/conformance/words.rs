//! Small random `WordPiece` tokenizers: all options of the normalizer, added tokens of every flag.

use std::fs;

use fastpack_tokenize::{Encoding, SpecialTokens, Tokenizer};
use serde_json::{Map, Value, json};

use crate::check::Check;
use crate::random::Random;
use crate::texts;

/// Text from which tokens are taken, so that the models have something to do.
const SAMPLE: &str = "the quick brown fox jumps over the lazy dog don't unaffable embeddings 12345 中文中国 日本 café CAFÉ \
    naïve 한국어 각 हिन्दी ไทย Straße İstanbul ﬀ aaaaaaaa abababab \u{302e} x\u{301}y ";

/// Characters that the normalizer, the pre-tokenizer or decomposing treat each in their own way.
const PARTS: [&str; 52] = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\u{b}",
    "\u{c}",
    "\u{1c}",
    "\0",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{2028}",
    "\u{2000}",
    "\u{3000}",
    "\u{feff}",
    "\u{fffd}",
    "\u{301}",
    "\u{323}",
    "\u{302e}",
    "\u{1d165}",
    "\u{1d15e}",
    "\u{344}",
    "\u{f71}",
    "\u{ddd}",
    "\u{37e}",
    "\u{1fef}",
    "\u{387}",
    "İ",
    "ſ",
    "ß",
    "ẞ",
    "Σ",
    "ﬁ",
    "\u{212a}",
    "각",
    "힣",
    "中",
    "\u{f900}",
    "\u{2f800}",
    "\u{20000}",
    "ー",
    "é",
    "ệ",
    "ǅ",
    "$",
    "^",
    "—",
    "।",
];

/// Contents of added tokens: some change when they are normalized, some begin or end with characters that others take away.
const TOKENS: [&str; 12] = [
    "[MASK]",
    "[mask]",
    "[MA",
    "fox",
    "The",
    "café",
    "CAFÉ",
    "12",
    "don't",
    "中",
    "x\u{301}y",
    "q u",
];

/// A random `WordPiece` model.
fn model(random: &mut Random) -> Value {
    let prefix = *random.choose(&["##", "##", "##", "", "a", "é", "@@"]);
    let mut tokens: Vec<String> = vec!["[UNK]".to_owned(), "the".to_owned()];
    let forms = [SAMPLE.to_owned(), SAMPLE.to_lowercase()];
    for form in &forms {
        let letters: Vec<char> = form.chars().collect();
        for letter in &letters {
            if !random.once_in(8) {
                tokens.push(letter.to_string());
            }
            if !random.once_in(8) {
                tokens.push(format!("{prefix}{letter}"));
            }
        }
        for _ in 0..random.below(200) {
            let at = random.below(letters.len() - 8);
            let token: String = letters[at..].iter().take(random.below(7) + 2).collect();
            let token = token.replace(' ', "");
            tokens.push(if random.once_in(2) { token } else { format!("{prefix}{token}") });
        }
    }
    tokens.extend(
        ["e", "cafe", "##fe", "i\u{307}", "\u{1100}\u{1161}", "##\u{11a8}", ";", "$"]
            .map(str::to_owned),
    );
    let mut vocab = Map::new();
    for token in tokens {
        let id = vocab.len();
        vocab.entry(token).or_insert_with(|| id.into());
    }
    let unknown = if random.once_in(4) { "the" } else { "[UNK]" };
    json!({
        "type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": prefix,
        "max_input_chars_per_word": random.choose(&[100, 100, 5, 1, 0, 1_000]), "vocab": vocab,
    })
}

/// Added tokens with every flag.
fn added_tokens(random: &mut Random, vocab: &Map<String, Value>) -> Value {
    let (mut tokens, mut next) = (Vec::new(), vocab.len());
    let normalized = random.once_in(2);
    for content in TOKENS {
        if random.once_in(3) {
            continue;
        }
        let id = vocab.get(content).cloned().unwrap_or_else(|| {
            next += 1;
            json!(next - 1)
        });
        tokens.push(json!({
            "id": id, "content": content,
            "single_word": random.once_in(4), "lstrip": random.once_in(3), "rstrip": random.once_in(6),
            "normalized": normalized && random.once_in(2), "special": random.once_in(2),
        }));
    }
    Value::Array(tokens)
}

/// A random tokenizer with a normalizer of the given options, and perhaps with added tokens.
fn tokenizer(random: &mut Random, normalizer: &Value, adds: bool) -> Tokenizer {
    let model = model(random);
    let vocab = model["vocab"].as_object().expect("the model has a vocabulary");
    let added = if adds { added_tokens(random, vocab) } else { json!([]) };
    let template = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "x", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"x": {"id": "x", "ids": [1, 2], "tokens": ["x", "y"]}}});
    let processor = match random.below(3) {
        0 => Value::Null,
        1 => template,
        _ => json!({"type": "BertProcessing", "sep": ["y", 2], "cls": ["x", 1]}),
    };
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": processor, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": model,
    });
    Tokenizer::from_json(&file.to_string()).expect("the tokenizer loads")
}

/// All options of the normalizer.
fn normalizers() -> Vec<Value> {
    let mut all = Vec::new();
    for bits in 0..8 {
        for strip in [Value::Null, json!(true), json!(false)] {
            all.push(json!({
                "type": "BertNormalizer", "clean_text": bits & 1 == 1, "handle_chinese_chars": bits & 2 == 2,
                "lowercase": bits & 4 == 4, "strip_accents": strip,
            }));
        }
    }
    all
}

/// A random text of characters that are treated in their own way, words of the sample and added tokens.
fn fuzz(random: &mut Random, out: &mut String) {
    out.clear();
    for _ in 0..=random.below(20) {
        match random.below(8) {
            0 => out.push_str(random.choose::<&str>(&TOKENS)),
            1 => {
                let words: Vec<&str> = SAMPLE.split(' ').collect();
                let word = *random.choose(&words);
                let word = if random.once_in(3) { word.to_uppercase() } else { word.to_owned() };
                out.push_str(&word.repeat(random.below(30) / 10 + 1));
            }
            2 => out.push_str(&random.choose(&["a", "é", "각", "ж"]).repeat(random.below(130))),
            3 | 4 => out.push(char::from(b'a' + u8::try_from(random.below(26)).expect("a letter"))),
            _ => out.push_str(random.choose::<&str>(&PARTS)),
        }
    }
}

/// `models` random models for all options, `texts` random texts each.
fn run(models: u64, texts: usize) {
    let mut text = String::new();
    for (index, normalizer) in (0..).zip(normalizers()) {
        let mut compiled = 0;
        for seed in 0..models {
            let mut random = Random::new(seed * 41 + index * 1009 + 3);
            let tokenizer = tokenizer(&mut random, &normalizer, seed % 2 == 1);
            let engine = format!("{:?}", tokenizer.engine());
            if engine.contains("beside a token with rstrip") || engine.contains("match the same") {
                continue;
            }
            compiled += 1;
            let mut check = Check::new(&format!("{normalizer}, model {seed}"), &tokenizer);
            check.ids("");
            check.ids(SAMPLE);
            check.masks(SAMPLE);
            check.names(&tokenizer);
            for _ in 0..texts {
                fuzz(&mut random, &mut text);
                check.ids(&text);
                check.masks(&text);
                texts::fuzz(&mut random, &[], &mut text);
                check.masks(&text);
            }
        }
        assert!(compiled > 0, "some added tokens can stand beside each other");
    }
}

#[test]
fn random_word_models_give_the_ids_of_the_reference() {
    run(6, 60);
}

#[test]
#[ignore = "takes minutes"]
fn many_random_word_models_give_the_ids_of_the_reference() {
    run(60, 600);
}

/// A tokenizer without added tokens, so that pieces are normalized one by one.
fn plain(normalizer: &Value) -> Tokenizer {
    tokenizer(&mut Random::new(5), normalizer, false)
}

#[test]
fn all_pairs_of_characters_with_rules_of_their_own_give_the_ids_of_the_reference() {
    for normalizer in normalizers() {
        let mut check = Check::new(&normalizer.to_string(), &plain(&normalizer));
        for first in PARTS {
            for second in PARTS {
                check.masks(&format!("{first}{second}"));
                check.masks(&format!("a{first}{second}a"));
            }
        }
    }
}

#[test]
fn some_code_points_give_the_ids_of_the_reference() {
    for normalizer in normalizers() {
        let mut check = Check::new(&normalizer.to_string(), &plain(&normalizer));
        texts::code_points(&mut check, 211);
    }
}

#[test]
#[ignore = "takes minutes"]
fn all_code_points_and_triples_give_the_ids_of_the_reference() {
    for normalizer in normalizers() {
        let mut check = Check::new(&normalizer.to_string(), &plain(&normalizer));
        texts::code_points(&mut check, 1);
        for first in PARTS {
            for second in PARTS {
                for third in PARTS {
                    check.masks(&format!("{first}{second}{third}"));
                    check.masks(&format!("e{first}{second}{third}"));
                }
            }
        }
    }
}

/// The time that this thread has had on a core, in nanoseconds: other work on the machine does not count.
fn busy() -> Option<u64> {
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// A word of a million characters, and random ideographs, in less than 40 ns a byte where the compiler optimises.
#[test]
fn words_without_end_take_time_in_proportion() {
    let mut random = Random::new(4);
    let ideographs: String = (0..350_000)
        .filter_map(|_| {
            char::from_u32(0x4E00 + u32::try_from(random.below(0x51A5)).expect("small"))
        })
        .collect();
    let letters: String = (0..1_000_000)
        .map(|_| char::from(b'a' + u8::try_from(random.below(26)).expect("a letter")))
        .collect();
    let texts = [
        "a".repeat(1_000_000),
        letters,
        ideographs,
        "é".repeat(500_000),
        "\u{301}".repeat(500_000),
        "ไทย".repeat(120_000),
        "\0".repeat(1_000_000),
        "각".repeat(350_000),
        "\n".repeat(1_000_000),
    ];
    for normalizer in normalizers() {
        let tokenizer = plain(&normalizer);
        let (mut encoder, mut out) = (tokenizer.encoder(), Encoding::default());
        for text in &texts {
            let Some(start) = busy() else { return };
            out.clear();
            encoder.encode(text, &[], SpecialTokens::Omit, &mut out).expect("every text has ids");
            let each = busy().unwrap_or(start).saturating_sub(start) / text.len() as u64;
            let first = text.chars().next();
            assert!(
                cfg!(debug_assertions) || each < 40,
                "{first:?}: {each} ns a byte, {normalizer}"
            );
        }
    }
}
