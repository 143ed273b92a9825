//! What has no stage of its own: threads, random numbers, messages.

pub(super) mod bits;
pub mod control;
pub mod disk;
pub mod message;
pub(super) mod ordered;
pub(super) mod random;
pub mod redaction;
pub(super) mod room;
pub(super) mod sample;
pub mod state_dict;
pub mod threads;
pub mod wording;
