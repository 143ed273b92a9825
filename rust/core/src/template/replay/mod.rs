//! Renders by recorded programs, once trials have shown that they give the interpreter's output.

mod marked;
mod recorded;
pub(super) mod replayer;
pub(super) mod trials;
pub(super) mod turns;
mod turns_alone;
mod unprinted_values;
pub(super) mod wanted_spans;
