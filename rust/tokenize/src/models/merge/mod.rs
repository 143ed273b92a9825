//! Byte pair encoding of words that no cache has: the adjacent pair of lowest rank is merged first, the
//! leftmost on ties.
//!
//! Files list every way to split a token, but only one merge can ever make it: the last merge of the token's
//! own encoding. While a token forms, all merges within it are the merges of its own text. So one merge a
//! token is kept (127,156 of Llama 3's 280,147), and symbols are numbered in the order of these merges. Then
//! a pair's rank is the symbol that it merges into, and one table gives both.
//!
//! [`merges`] numbers the symbols, [`merge_word`] merges a word.

mod buckets;
mod interleaved_words;
mod last_merges;
mod lowest_rank_first;
mod merge_word;
mod merges;
mod pairs;
mod ranked_places;
mod windows;

pub(crate) use interleaved_words::InterleavedWords;
pub(crate) use merges::{Merge, Merges};
pub(crate) use pairs::{LARGEST_MERGES, LARGEST_SYMBOLS};
pub(crate) use ranked_places::{NONE, Symbol};
pub(crate) use windows::Windows;

#[cfg(test)]
mod tests;
