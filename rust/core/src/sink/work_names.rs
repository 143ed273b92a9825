//! The names of the files in the work folder of a job.

use std::path::Path;

use super::files::{
    BLOCKS, BLOCKS_NEW, LOCK, LOTS, MANIFEST, MANIFEST_NEW, REPLACED, REPORT, SHARDS, SHARDS_NEW,
    STARTED, STARTED_NEW, WORK, is_shard_of,
};
use super::shards::arrangement;
use crate::config::identity::Identity;
use crate::config::{Format, Split};
use crate::error::Error;

/// Whether a run of the job `job` writes a file of this name into the work folder.
pub(super) fn is_ours(name: &str, job: &Identity) -> bool {
    let is_shard = |format: Format| name.ends_with(&format!(".{}", format.extension()));
    is_of_any_job(name) || (job.is_per_file() && Format::all().any(is_shard))
}

/// Whether a run of any job, but for those that name outputs after inputs, writes a file of this name into the
/// work folder.
pub(super) fn is_of_any_job(name: &str) -> bool {
    let ours = [
        LOCK,
        STARTED,
        STARTED_NEW,
        SHARDS,
        SHARDS_NEW,
        BLOCKS,
        BLOCKS_NEW,
        REPORT,
        MANIFEST,
        MANIFEST_NEW,
        REPLACED,
        LOTS,
    ];
    ours.contains(&name)
        || arrangement::describes(name)
        || Split::ALL.into_iter().any(|split| is_shard_of(split, name))
}

/// The error for the file `name` in the work folder of `dir`, which fastpack did not write.
pub(super) fn foreign(dir: &Path, name: &str) -> Error {
    let reason = format!(
        "holds `{WORK}/{name}`, which fastpack did not write, or which has changed since; move `{WORK}` away, or write to another folder"
    );
    Error::output(dir, reason)
}
