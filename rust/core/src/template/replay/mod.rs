//! Renders by recorded programs, once trials have shown that they give the interpreter's output.

mod recorded_programs;
pub(super) mod replay_trials;
pub(super) mod replayer;
mod span_places;
pub(super) mod turns;
mod turns_alone;
mod unprinted_values;
pub(super) mod wanted_spans;
