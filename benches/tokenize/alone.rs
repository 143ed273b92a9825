//! The crate alone, as `benches/python/tokenizer/engines.py` measures the engines that Python calls.
//!
//! `cargo bench -p fastpack-tokenize --bench alone -- TOKENIZER.json TEXTS.jsonl THREADS IDS` prints a line of JSON: MB/s
//! of the first texts that fresh encoders see (cold), of texts that they have not seen after those (held out), tokens,
//! and the seconds that loading takes. The ids of the first texts go into the file IDS, as numbers of 32 bits.
//! With one thread its time on the core counts; with more, the wall.

#![expect(clippy::print_stdout, reason = "the line is the result")]
#![expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]

mod corpus;

use std::env;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use corpus::{busy, documents};
use fastpack_tokenize::{Encoder, Encoding, SpecialTokens, Tokenizer};

/// Texts whose ids are compared with those of other engines.
const SAMPLE: usize = 500;

/// Texts that a thread takes at a time.
const SHARE: usize = 64;

/// Bytes of text for which there is room for a token from the start.
const BYTES_OF_TOKEN: usize = 4;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|it| it != "--bench").collect();
    let [tokenizer, texts, threads, ids] = arguments.as_slice() else {
        println!("give TOKENIZER.json TEXTS.jsonl THREADS IDS");
        return;
    };
    let json = fs::read_to_string(tokenizer).expect("the tokenizer is readable");
    let load = || Tokenizer::from_file_text(&json).expect("the tokenizer loads");
    drop(load());
    let started = Instant::now();
    let tokenizer = load();
    let loaded = started.elapsed().as_secs_f64();
    let texts = documents(Path::new(texts));
    let threads: usize = threads.parse().expect("threads are a number");
    let mut encoders: Vec<Encoder> = (0..threads).map(|_| tokenizer.encoder()).collect();
    let every_other = |from: usize| texts.iter().skip(from).step_by(2).collect::<Vec<_>>();
    let (cold, first) = pass(&mut encoders, &every_other(0));
    let (held_out, second) = pass(&mut encoders, &every_other(1));
    let mut sample = Encoding::default();
    for text in &texts[..texts.len().min(SAMPLE)] {
        encode(&mut encoders[0], text, &mut sample);
    }
    let bytes: Vec<u8> = sample.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    fs::write(ids, bytes).expect("the file of ids is written");
    let tokens = first + second;
    println!(r#"{{"cold": {cold}, "held_out": {held_out}, "tokens": {tokens}, "load": {loaded}}}"#);
}

fn encode(encoder: &mut Encoder, text: &str, out: &mut Encoding) {
    encoder.encode(text, &[], SpecialTokens::Omit, out).expect("the text is encoded");
}

/// Megabytes a second over all texts, a thread for each encoder, and tokens.
fn pass(encoders: &mut [Encoder], texts: &[&String]) -> (f64, usize) {
    let size: usize = texts.iter().map(|text| text.len()).sum();
    let shares: Vec<&[&String]> = texts.chunks(SHARE).collect();
    let room = size / BYTES_OF_TOKEN / encoders.len();
    let next = AtomicUsize::new(0);
    let work = |encoder: &mut Encoder| {
        let mut out = Encoding::with_room(room);
        while let Some(share) = shares.get(next.fetch_add(1, Ordering::Relaxed)) {
            for text in *share {
                encode(encoder, text, &mut out);
            }
        }
        out.ids.len()
    };
    let (started, before) = (Instant::now(), busy());
    let (tokens, seconds) = match encoders {
        [one] => (work(one), busy().saturating_sub(before).as_secs_f64()),
        all => {
            let tokens = thread::scope(|scope| {
                let threads: Vec<_> =
                    all.iter_mut().map(|encoder| scope.spawn(|| work(encoder))).collect();
                threads.into_iter().map(|thread| thread.join().expect("it encodes")).sum()
            });
            (tokens, started.elapsed().as_secs_f64())
        }
    };
    (size as f64 / 1e6 / seconds, tokens)
}
