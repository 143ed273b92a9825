//! [`OutputFolder`]: an output folder from the first batch to the manifest.
//!
//! [`start_or_resume`] begins or goes on, [`output_folder`] writes shard after shard, [`publish_outputs`] puts them in their places.

mod checks_before_publishing;
pub(super) mod discarded_outputs;
pub(super) mod leftovers;
pub(super) mod lock;
mod output_folder;
pub(super) mod output_survey;
pub(super) mod own_files;
mod publish_outputs;
pub(super) mod renamed_files;
mod resumed_run;
mod start_or_resume;
mod taken_over_shards;
mod uploading;

pub use output_folder::OutputFolder;
pub(super) use start_or_resume::{prepare, tidy};
