//! Runs the tree of a template over its inputs.

mod calls;
mod evaluate;
pub(crate) mod input;
pub(crate) mod iteration_memo;
mod loops;
mod outer_reads;
pub(crate) mod render;
pub(crate) mod sources;
