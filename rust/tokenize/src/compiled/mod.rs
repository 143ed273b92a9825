//! The compiled engines: they serve a whole tokenizer without the Hugging Face crate.
//!
//! [`recognition`] chooses an engine for a tokenizer, [`compiled_tokenizer`] encodes texts with it.

mod batch;
mod cache_misses;
mod compiled_tokenizer;
mod cutting;
mod engines;
mod normalizers;
mod offsets;
mod piece_encoder;
mod post_processor;
mod pre_tokenizer;
mod prefix_space;
mod recognition;
mod spans;
mod thread_caches;
mod token_names;

pub(crate) use compiled_tokenizer::Compiled;
pub use cutting::independent_parts::StableSegment;
pub(crate) use offsets::{Blanks, OffsetBuffers};
pub(crate) use recognition::{Description, TokenizerFile, WrittenModel, recognise};
pub(crate) use thread_caches::{Caches, ThreadMemory};
pub(crate) use token_names::TokenNames;
