//! Records a run of a template as a program, and replays it for conversations of the same structure.

pub(crate) mod buffers;
pub(crate) mod operation;
pub(crate) mod program;
mod spoil;
pub(crate) mod steps;
pub(crate) mod trace;
