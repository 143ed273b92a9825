//! The usual classes that build their own engine from a vocabulary, whatever the rest of `tokenizer.json` says.
//!
//! Each class has one [`Recipe`], in the file of its model: its default tokens, its engine, and its post-processor.
//! `docs/topics/tokenizing.md` lists the classes with rules of their own; transformers builds all others.

mod bpe;
mod recipe;
mod unigram;
mod wordpiece;

pub(super) use recipe::{Recipe, tokenizer};

/// The recipe of a class, if fastpack supports the class.
pub(super) fn recipe(class: &str) -> Option<Recipe> {
    [bpe::recipe, wordpiece::recipe, unigram::recipe].into_iter().find_map(|recipe| recipe(class))
}
