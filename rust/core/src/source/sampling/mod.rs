//! The part of the files that `scan(sample=)` reads.

pub(super) mod sample;
pub(super) mod sample_size;
pub(super) mod sampled_blocks;
pub(super) mod sequential;
