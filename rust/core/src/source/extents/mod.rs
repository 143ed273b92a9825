//! Stretches of files that are entered in the middle, and the parts of files that hold some records.

pub(crate) mod extent;
pub(super) mod frame_lines;
pub(super) mod line_extent;
pub(super) mod line_file;
pub(crate) mod parts;
pub(super) mod places;
pub(crate) mod token_weights;
pub(super) mod zstd_frames;
