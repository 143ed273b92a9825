//! Strings, and their methods in Python.

pub(crate) mod cuts;
pub(crate) mod search;
pub(crate) mod text;
