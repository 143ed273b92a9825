//! Unigram models of 8,000 to 250,000 pieces: trained ones, random scores, and scores whose sums tie.

use std::collections::HashSet;

use fastpack_tokenize::Tokenizer;
use serde_json::{Value, json};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::tokenizer::Trainer;

use crate::check::Check;
use crate::random::Random;
use crate::texts;

/// The first and the last letter of some scripts.
const SCRIPTS: [(char, char); 8] = [
    ('a', 'z'),
    ('a', 'z'),
    ('а', 'я'),
    ('α', 'ω'),
    ('あ', 'ん'),
    ('一', '丿'),
    ('ก', 'ฮ'),
    ('अ', 'ह'),
];

/// Signs between words.
const SIGNS: [&str; 12] = [" ", " ", " ", " ", " ", ", ", ". ", "...", "\n", "!!!", " 2024 ", "——"];

/// The syllables of a script: words of them have many substrings in common.
fn syllables(random: &mut Random, script: (char, char)) -> Vec<String> {
    let letters: Vec<char> = (script.0..=script.1).collect();
    let syllable = |_| (0..=random.below(3)).map(|_| *random.choose(&letters)).collect();
    (0..40).map(syllable).collect()
}

/// A source of text in several scripts.
struct Source {
    scripts: Vec<Vec<String>>,
    random: Random,
}

impl Source {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let scripts = SCRIPTS.map(|script| syllables(&mut random, script)).to_vec();
        Self { scripts, random }
    }

    fn word(&mut self) -> String {
        let script = self.random.below(self.scripts.len());
        let count = 1 + self.random.below(4);
        (0..count).map(|_| self.random.choose(&self.scripts[script]).as_str()).collect()
    }

    /// A text of words, signs and hostile fragments.
    fn text(&mut self, words: usize) -> String {
        let (mut text, mut hostile) = (String::new(), String::new());
        for _ in 0..=self.random.below(words) {
            if self.random.once_in(40) {
                texts::fuzz(&mut self.random, &[], &mut hostile);
                text.push_str(&hostile);
            } else if self.random.once_in(60) {
                let letter = self.word();
                text.push_str(&letter.repeat(1 + self.random.below(30)));
            } else {
                text.push_str(&self.word());
            }
            text.push_str(self.random.choose::<&str>(&SIGNS));
        }
        text
    }
}

/// The source of the scores of pieces.
#[derive(Clone, Copy, Debug)]
enum Scores {
    /// Random doubles, whose sums are not exact.
    Random,
    /// One of three: most paths have an equal.
    Few,
    /// Multiples of 1/64 that grow with the length of a piece: sums are exact, and paths of any length tie.
    ByLength,
    /// Random numbers of 32 bits, as trained models have.
    Short,
}

impl Scores {
    fn of(self, piece: &str, random: &mut Random) -> f64 {
        let number = |limit: usize, random: &mut Random| {
            f64::from(u32::try_from(random.below(limit)).expect("small"))
        };
        match self {
            Self::Random => -number(1 << 30, random) / 7e7,
            Self::Few => -1.0 - number(3, random),
            Self::ByLength => {
                -f64::from(u32::try_from(piece.chars().count()).expect("small"))
                    - number(2, random) / 64.0
            }
            #[expect(clippy::cast_possible_truncation, reason = "to 32 bits")]
            Self::Short => f64::from((-number(1 << 30, random) / 7e7) as f32),
        }
    }
}

/// A model of `count` substrings of the source's words, with their scores.
fn built(source: &mut Source, count: usize, scores: Scores) -> Vec<Value> {
    let mut pieces = vec!["<unk>".to_owned()];
    let mut seen = HashSet::new();
    while pieces.len() < count {
        let word: Vec<char> = format!("▁{}{}", source.word(), source.word()).chars().collect();
        for start in 0..word.len() {
            for end in start + 1..=word.len().min(start + 9) {
                let piece: String = word[start..end].iter().collect();
                if pieces.len() < count && !source.random.once_in(4) && seen.insert(piece.clone()) {
                    pieces.push(piece);
                }
            }
        }
    }
    let with_score = |piece: &String| json!([piece, scores.of(piece, &mut source.random)]);
    pieces.iter().map(with_score).collect()
}

/// A model of at most `count` pieces that the Hugging Face crate trains on the source's words.
fn trained(source: &mut Source, count: u32) -> Vec<Value> {
    let words: Vec<String> = (0..60_000).map(|_| format!("▁{}", source.word())).collect();
    let mut trainer = UnigramTrainer::builder()
        .show_progress(false)
        .vocab_size(count)
        .unk_token(Some("<unk>".to_owned()))
        .special_tokens(vec![tokenizers::AddedToken::from("<unk>", true)])
        .build()
        .expect("sound options");
    trainer.feed(words.iter(), |word| Ok(vec![word.to_owned()])).expect("words are read");
    let mut model = Unigram::default();
    trainer.train(&mut model).expect("the model is trained");
    model.iter().map(|(piece, score)| json!([piece, score])).collect()
}

/// Compares so many texts of at most so many words.
fn compare(name: &str, source: &mut Source, vocab: &[Value], texts: usize) {
    for (kind, pre_tokenizer, fallback) in [
        (
            "words",
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
            false,
        ),
        (
            "whole",
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false}),
            true,
        ),
    ] {
        let bytes = (0..=255_u8).map(|byte| json!([format!("<0x{byte:02X}>"), -20.0]));
        let vocab: Vec<Value> = vocab.iter().cloned().chain(bytes.filter(|_| fallback)).collect();
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null,
            "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": fallback},
        });
        let tokenizer = Tokenizer::from_json(&file.to_string()).expect("the tokenizer loads");
        let name = format!("{name}, {kind}, {} pieces", vocab.len());
        let mut check = Check::new(&name, &tokenizer);
        for _ in 0..texts {
            let text = source.text(60);
            check.ids(&text);
            if source.random.once_in(4) {
                check.masks(&text);
            }
        }
        #[expect(clippy::print_stderr, reason = "the counts are the result")]
        {
            eprintln!("{name}: {} texts, {} bytes, no difference", check.texts, check.bytes);
        }
    }
}

/// Compares a built model of each kind of scores.
fn run(count: usize, texts: usize) {
    for (seed, scores) in (0..).zip([Scores::Random, Scores::Few, Scores::ByLength, Scores::Short])
    {
        let mut source = Source::new(seed * 17 + count as u64);
        let vocab = built(&mut source, count, scores);
        compare(&format!("{scores:?} scores"), &mut source, &vocab, texts);
    }
}

#[test]
fn models_of_8000_pieces_give_the_ids_of_the_reference() {
    run(8_000, 150);
}

#[test]
#[ignore = "takes minutes"]
fn many_texts_by_models_of_8000_and_32000_pieces_give_the_ids_of_the_reference() {
    run(8_000, 20_000);
    run(32_000, 20_000);
}

#[test]
#[ignore = "takes minutes"]
fn models_of_250000_pieces_give_the_ids_of_the_reference() {
    run(250_000, 10_000);
}

#[test]
#[ignore = "takes minutes"]
fn trained_models_of_8000_and_32000_pieces_give_the_ids_of_the_reference() {
    for count in [8_000, 32_000] {
        let mut source = Source::new(count.into());
        let vocab = trained(&mut source, count);
        compare("trained", &mut source, &vocab, 20_000);
    }
}
