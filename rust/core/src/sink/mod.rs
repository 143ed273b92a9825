//! Writes batches of rows to memory, or to shards in a folder with a manifest.
//!
//! ```text
//! packed/
//! ├── .fastpack/            the work folder, until the job has finished
//! │   ├── lock              held by the run that works
//! │   ├── started.json      which job this is, and when it began
//! │   ├── shards            the list of the finished shards
//! │   ├── groups/           the groups of a job that is cut into groups, each an output folder of its own
//! │   ├── blocks            the token log: documents of finished blocks
//! │   ├── shards.begun      the number of the last shard that was begun while earlier ones were not listed
//! │   ├── train-00000.arrow the finished shards, and those that are being written
//! │   ├── report.json       the report, once all shards are finished
//! │   ├── manifest.json     the files that are being placed, once all are finished
//! │   └── replaced.json     the manifest of the output that they replace, while it is removed
//! ├── train-00000.arrow     shards, in place once all of them are whole
//! ├── tokens.fastpack       the token log, with `keep_tokens`
//! ├── report.json
//! └── manifest.json         the last file to appear: with it, the folder is finished
//! ```
//!
//! `store` says which steps a job takes, on the disk and in a bucket; `folder` and `bucket` are these steps for each of the two.
//! `groups` coordinates the processes that share a job. `shards` encodes, hashes and writes rows, by `formats`.
//!
//! In a folder that `datasets` maps, the shards get the names that it uses when they are placed, beside the
//! files that describe them to it.
//!
//! The next run resumes from the files of an unfinished one. All of these have hashes, which are checked
//! first: `started.json` and the manifests are sealed text, each line of the list has a hash of all lines before it, and
//! shards and blocks are hashed again. No link is followed in either folder.
//!
//! * In the output folder nothing is written or renamed over a file that is there, and nothing is removed but manifests of fastpack
//!   and the files that they list, which must have the hash in the list.
//! * The work folder is the lock holder's, and is refused if it holds a file that no run of the job writes. The others are replaced and
//!   removed there by their names.

mod bucket;
mod file_names;
mod folder;
mod formats;
mod groups;
mod manifest;
mod memory_tables;
mod shards;
mod shared_failure;
mod store;
mod work_names;

use std::num::NonZeroUsize;

use ::arrow::record_batch::RecordBatch;
use serde_json::Value;

use crate::config::Split;
use crate::error::Result;
use crate::report::timing::Stages;
use crate::util::thread_pool::TaskQueue;

pub use bucket::single_files::BucketFiles;
pub use file_names::{SPLIT_HASHES, TOKENS};
pub use folder::OutputFolder;
pub use folder::discarded_outputs::{
    LockedOutput, discard, is_barred, is_damaged, is_emptied, refuse_foreign_files, remove_output,
};
pub use folder::output_survey::{
    FinishedOutput, KeptTokens, finished_in, finished_job, finished_output, kept, tokens_hash,
};
pub use formats::line_fault;
pub use groups::group_states::{GroupState, OwnProgress, StepState, UnfinishedJob};
pub use groups::packed_group::PackedGroup;
pub use groups::{Groups, join};
pub use manifest::{Manifest, MetadataFile, TokensFile, VERSION as MANIFEST_VERSION, WrittenShard};
pub use memory_tables::MemoryTables;
pub use store::job_states::JobState;
pub use store::job_store::{OpenOutput, OpenedJob};
pub use store::{find, open};

#[cfg(test)]
pub(crate) use shards::simulated_rows::SimulatedRows;

/// The receiver of the rows of a run, one split after the other.
pub trait Sink {
    /// The number of rows that it has from a stopped run. [`Sink::write`] continues after them.
    fn rows(&self) -> u64;

    /// Says that the next rows are those of `split`. The first rows are those of `train`.
    fn begin_split(&mut self, split: Split) -> Result<()>;

    /// Says how many threads may encode rows from now on, and how many bytes of rows they may have in hand. Returns their tasks, behind
    /// which other work is done, if there are such threads.
    fn use_threads(&mut self, threads: NonZeroUsize, bytes: u64) -> Option<TaskQueue>;

    /// Takes the next rows. Columns are as [`crate::assemble`] makes them.
    ///
    /// They may be encoded and written later, and a failure be told by a later call.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Keeps the counts from which the report is made with the output, if that is finished later.
    fn keep_counts(&mut self, counts: Value);

    /// Waits until the rows so far are encoded, except those of an unfilled row group. Returns the time that this took on all
    /// threads since the last call.
    fn settle(&mut self) -> Result<Stages>;
}
