//! Records a run of a template as a program, and replays it for conversations of the same structure.

pub(crate) mod buffers;
mod faults_for_tests;
pub(crate) mod operation;
pub(crate) mod program;
pub(crate) mod steps;
pub(crate) mod trace;
