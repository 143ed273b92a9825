//! Reads a `tokenizer.json`: checks it, describes it, and tells it from others.

pub(super) mod beside;
pub(super) mod components;
pub(super) mod contain;
pub(super) mod fingerprint;
pub(super) mod load;
pub(super) mod outline;
pub mod regular;
