//! The part of the files that `scan(sample=)` reads.

pub(super) mod pilot;
pub(super) mod sample;
pub(super) mod sequential;
pub(super) mod windows;
