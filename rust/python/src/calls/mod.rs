//! The functions and classes of the native module.

pub(super) mod encoders;
pub(super) mod groups;
pub(super) mod manifest_files;
pub(super) mod pack;
pub(super) mod packed_folder;
pub(super) mod pictures;
pub(super) mod plan;
pub(super) mod pretrained;
pub(super) mod reindex;
pub(super) mod render;
pub(super) mod rows;
pub(super) mod scan;
pub(super) mod step;
pub(super) mod stream;
