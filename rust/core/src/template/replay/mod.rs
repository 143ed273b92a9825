//! Renders by recorded programs, once trials have shown that they give the interpreter's output.

pub(super) mod replayer;
pub(super) mod trials;
mod unprinted;
pub(super) mod wanted;
