//! [`reindex`]: rewrites files so that a stream can enter them in the middle.
//!
//! Line files become zstd files of small frames with a seek table, whatever their compression. Parquet and Arrow files are
//! written again with small row groups and record batches. The records, their order and their lines stay.
//!
//! Begin with [`rewrite_files`]; [`can_be_reindexed`] says which files are taken, [`rewritten_names`] where they go.

mod can_be_reindexed;
mod lines;
mod part;
mod rewrite_files;
mod rewritten_names;
mod tables;

pub(crate) use can_be_reindexed::can_be_divided;
pub use rewrite_files::{Reindexed, RewriteDestination, reindex};
