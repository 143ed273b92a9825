//! Strings, and what Python does with them.

pub(crate) mod cuts;
pub(crate) mod search;
pub(crate) mod text;
