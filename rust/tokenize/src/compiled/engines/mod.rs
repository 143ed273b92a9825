//! The engines: one for each kind of model.

pub(super) mod alphabet;
pub(super) mod bert_word_piece;
pub(super) mod bpe;
pub(super) mod byte_level;
pub(super) mod general;
pub(super) mod sentence_piece_bpe;
pub(super) mod space_prefix;
pub(super) mod unigram;
pub(super) mod word_piece;
