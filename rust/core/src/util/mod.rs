//! Shared by all stages: threads, random numbers, messages, files of the disk.

pub(super) mod bits;
pub mod control;
pub mod disk;
pub(super) mod free_memory;
pub mod message;
pub(super) mod ordered;
pub(super) mod random;
pub mod redaction;
pub(super) mod sample;
pub mod sealed_state_dict;
pub mod start_thread;
pub(super) mod thread_pool;
pub mod wording;
