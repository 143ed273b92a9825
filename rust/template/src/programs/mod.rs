//! Recorded programs: what a template did with one conversation, replayed for conversations of the same structure.

pub(crate) mod frame;
pub(crate) mod operation;
pub(crate) mod program;
mod spoil;
pub(crate) mod steps;
pub(crate) mod trace;
