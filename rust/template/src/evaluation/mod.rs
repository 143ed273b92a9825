//! Runs the tree of a template over its inputs.

mod calls;
mod evaluate;
pub(crate) mod input;
mod loops;
pub(crate) mod render;
pub(crate) mod sources;
