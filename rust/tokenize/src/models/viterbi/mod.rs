//! Finds the tokens of a text with the highest sum of scores, as the reference's unigram model does.
//!
//! Sums are computed in the reference's order, and the first of equal sums is kept, so the results are the
//! same to the last bit.
//!
//! The search is in [`best_path`].

mod best_path;
mod cut_pairs;
mod unigram_trie;

pub(crate) use best_path::{Viterbi, ViterbiBuffers};
