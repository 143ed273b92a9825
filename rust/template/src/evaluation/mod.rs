//! Runs the tree of a template over its inputs.

mod calls;
mod evaluate;
mod flow;
pub(crate) mod input;
pub(crate) mod iteration_memo;
mod loop_invariants;
mod loops;
pub(crate) mod render;
mod repeating;
pub(crate) mod sources;
