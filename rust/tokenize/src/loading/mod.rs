//! Reads a `tokenizer.json`: checks it, describes it, and tells it from others.

pub(super) mod catch_panic;
pub(super) mod components;
pub(super) mod fingerprint;
pub(super) mod in_parallel;
pub(super) mod load;
pub mod regular;
pub(super) mod without_vocabulary;
