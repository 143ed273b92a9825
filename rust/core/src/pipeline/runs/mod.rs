//! The public functions: each puts the stages together for one kind of input and output.

pub(crate) mod append;
mod cache;
pub(in crate::pipeline) mod content;
pub(crate) mod dir;
pub(crate) mod files;
pub(crate) mod folder;
mod known_files;
pub(crate) mod memory;
pub(crate) mod packed_folder;
mod per_file;
mod records;
pub(crate) mod reindex;
pub(crate) mod repack;
pub(crate) mod scan;
mod time_estimate;
