//! Shared by all stages: threads, random numbers, messages, files of the disk.

pub(super) mod bits;
pub mod control;
pub mod disk;
pub(super) mod free_memory;
pub mod message;
pub(super) mod random;
pub mod redaction;
pub mod sealed_state_dict;
#[cfg(test)]
pub(super) mod simulation;
pub mod start_thread;
pub(super) mod thread_pool;
pub(super) mod threads_in_order;
pub(super) mod unique_hex;
pub(super) mod verified_places;
pub mod wording;
