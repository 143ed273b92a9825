//! Recognises pre-tokenizers: patterns are compared by their matches, not by their spelling.
//!
//! [`mod@cutting`] does so for a byte-level model, [`mod@stages`] for any other.

mod cutting;
mod metaspace;
mod scanners;
mod splits;
mod stages;
mod step_descriptions;

pub(super) use cutting::{Cutting, cutting};
pub(super) use metaspace::{Spaces, spaces, words};
pub(super) use stages::stages;
