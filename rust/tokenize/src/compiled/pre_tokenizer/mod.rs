//! Recognises pre-tokenizers: patterns are compared by their matches, not by their spelling.
//!
//! [`mod@byte_level_pre_tokenizer`] does so for a byte-level model, [`mod@stages`] for any other.

mod byte_level_pre_tokenizer;
mod metaspace;
mod scanners;
mod splits;
mod stages;
mod step_descriptions;

pub(super) use byte_level_pre_tokenizer::{ByteLevelPreTokenizer, cutting};
pub(super) use metaspace::{MetaspaceSpaces, spaces, words};
pub(super) use stages::stages;
