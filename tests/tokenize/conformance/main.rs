//! The compiled engines against the linked Hugging Face crate: the same ids, the same tokens under spans.
//!
//! A bounded part runs on small models made here. With `FASTPACK_DATA` set to a folder that holds `tokenizers/` and
//! `corpora/`, the ignored tests run everything on real ones:
//! `FASTPACK_DATA=… cargo test --release -p fastpack-tokenize --test conformance -- --ignored`.

mod check;
mod cuts;
mod families;
mod hostile;
mod large;
mod random;
mod real;
#[path = "../small.rs"]
#[expect(dead_code, reason = "the tests of one file at a time need more of it")]
mod small;
mod texts;
mod unigram;
mod word_edges;
mod words;
