//! [`recognise()`]: from a tokenizer's description to a compiled engine.
//!
//! [`File`] is a `tokenizer.json` as it is parsed, [`models`] makes the model of it.

mod file;
mod models;
mod recognise;

pub(crate) use file::{File, WrittenModel};
pub(crate) use recognise::{Description, recognise};
