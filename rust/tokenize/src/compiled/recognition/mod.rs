//! [`recognise()`]: from a tokenizer's description to a compiled engine.
//!
//! [`TokenizerFile`] is a `tokenizer.json` as it is parsed, [`models`] makes the model of it.

mod models;
mod recognise;
mod tokenizer_file;

pub(crate) use recognise::{Description, recognise};
pub(crate) use tokenizer_file::{TokenizerFile, WrittenModel};
