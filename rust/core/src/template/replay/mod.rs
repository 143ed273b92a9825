//! Renders by recorded programs, once trials have shown that they give the interpreter's output.

mod alone;
mod marked;
mod recorded;
pub(super) mod replayer;
pub(super) mod trials;
pub(super) mod turns;
mod unprinted;
pub(super) mod wanted_spans;
