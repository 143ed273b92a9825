//! Renders by recorded programs, once trials have shown that a template's programs give what the interpreter gives.

pub(super) mod replayer;
pub(super) mod trials;
pub(super) mod wanted;
