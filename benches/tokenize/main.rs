//! Megabytes a second, compiled and reference, on real tokenizers and corpora.
//!
//! `FASTPACK_DATA=… cargo bench -p fastpack-tokenize --bench tokenize -- [tokenizer…]`, pinned to one core with
//! `taskset -c 1`. Cold is the first pass of a fresh encoder; held out is a pass over the second half of the documents
//! after one over the first half. Times are those of the thread, but with two threads it is the wall's.
//! The reference encodes every fifth document (`FASTPACK_REFERENCE=0` skips it).

#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]

mod corpus;

use std::env;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use corpus::{busy, documents};
use fastpack_tokenize::{Encoding, Engine, SpecialTokens, Tokenizer};

const TOKENIZERS: [&str; 6] = ["llama3", "qwen", "gpt2", "o200k", "mistral-v1", "bert"];
const CORPORA: [&str; 3] = ["text-en", "text-multi", "chat"];

/// The reference sees one document in this many.
const REFERENCE_STRIDE: usize = 5;

/// A megabyte takes little time, of which the fastest pass counts.
const HOSTILE_ROUNDS: usize = 7;

fn main() {
    let Some(data) = env::var_os("FASTPACK_DATA") else {
        println!("set FASTPACK_DATA to the folder that holds `tokenizers` and `corpora`");
        return;
    };
    let data = Path::new(&data);
    let chosen: Vec<String> = env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let reference = env::var("FASTPACK_REFERENCE").as_deref() != Ok("0");
    println!(
        "| tokenizer | corpus | reference | cold | held out | warm | masks | 2 threads | Mtok/s | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let usual = TOKENIZERS.map(str::to_owned);
    for name in if chosen.is_empty() { &usual[..] } else { &chosen[..] } {
        let path = data.join("tokenizers").join(name).join("tokenizer.json");
        let json = fs::read_to_string(path).expect("the tokenizer is readable");
        let start = busy();
        let tokenizer = Tokenizer::from_file_text(&json).expect("the tokenizer loads");
        let loaded = busy().saturating_sub(start);
        for corpus in CORPORA {
            let documents = documents(&data.join("corpora").join(format!("{corpus}.jsonl")));
            row(name, corpus, &tokenizer, &documents, reference);
        }
        for (what, text) in hostile() {
            let speeds =
                (0..HOSTILE_ROUNDS).map(|_| pass(&mut tokenizer.encoder(), &[&text], false).0);
            let speed = speeds.fold(0.0, f64::max);
            println!("{name}, {what}: {:.0} ns a byte", 1e3 / speed);
        }
        if tokenizer.engine() != Engine::Compiled {
            println!("{:?}", tokenizer.engine());
        }
        let start = busy();
        if reference {
            json.parse::<tokenizers::Tokenizer>().expect("the tokenizer loads");
        }
        println!("{name} loads in {loaded:?}, the reference in {:?}", busy().saturating_sub(start));
    }
}

/// A megabyte each of words without end.
fn hostile() -> [(&'static str, String); 4] {
    let mut state = 1_u64;
    let mut random = |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u32::try_from(state >> 33).unwrap_or(0) % below
    };
    let base64: Vec<char> =
        ('a'..='z').chain('A'..='Z').chain('0'..='9').chain("+/".chars()).collect();
    [
        ("one letter", "a".repeat(1 << 20)),
        ("random letters", (0..1 << 20).filter_map(|_| char::from_u32(97 + random(26))).collect()),
        ("base64", (0..1 << 20).map(|_| base64[random(64) as usize]).collect()),
        (
            "random ideographs",
            (0..1 << 18).filter_map(|_| char::from_u32(0x4E00 + random(0x51A5))).collect(),
        ),
    ]
}

/// Megabytes a second over `documents`, and tokens.
fn pass(
    encoder: &mut fastpack_tokenize::Encoder,
    documents: &[&String],
    masks: bool,
) -> (f64, usize) {
    let mut out = Encoding::default();
    let (mut bytes, mut tokens) = (0, 0);
    let start = busy();
    for document in documents {
        out.clear();
        let mut middle = document.len() / 2;
        while !document.is_char_boundary(middle) {
            middle -= 1;
        }
        let span = middle..document.len();
        let spans = if masks { std::slice::from_ref(&span) } else { &[] };
        encoder
            .encode(document, spans, SpecialTokens::Omit, &mut out)
            .expect("the text is encoded");
        bytes += document.len();
        tokens += out.ids.len();
    }
    (bytes as f64 / 1e6 / busy().saturating_sub(start).as_secs_f64(), tokens)
}

fn row(name: &str, corpus: &str, tokenizer: &Tokenizer, documents: &[String], reference: bool) {
    let all: Vec<&String> = documents.iter().collect();
    let (first, second): (Vec<&String>, Vec<&String>) = (
        all.iter().step_by(2).copied().collect(),
        all.iter().skip(1).step_by(2).copied().collect(),
    );
    let slow = if reference {
        let sample: Vec<&String> = all.iter().step_by(REFERENCE_STRIDE).copied().collect();
        pass(
            &mut tokenizer.with_reference_engine().expect("the reference loads").encoder(),
            &sample,
            false,
        )
        .0
    } else {
        f64::NAN
    };
    let mut encoder = tokenizer.encoder();
    let (cold, tokens) = pass(&mut encoder, &all, false);
    let (warm, _) = pass(&mut encoder, &all, false);
    let (masks, _) = pass(&mut encoder, &all, true);
    let mut encoder = tokenizer.encoder();
    pass(&mut encoder, &first, false);
    let (held_out, _) = pass(&mut encoder, &second, false);
    let start = Instant::now();
    thread::scope(|scope| {
        for half in [&first, &second] {
            scope.spawn(move || pass(&mut tokenizer.encoder(), half, false));
        }
    });
    let bytes: usize = documents.iter().map(String::len).sum();
    let two = bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
    let million_tokens = tokens as f64 / (bytes as f64 / cold);
    println!(
        "| {name} | {corpus} | {slow:.2} | {cold:.0} | {held_out:.0} | {warm:.0} | {masks:.0} | {two:.0} | {million_tokens:.0} | {:.0} / {:.0} |",
        cold / slow,
        held_out / slow,
    );
}
