//! The names of the files in the work folder of a job.

use std::io::Read;
use std::path::Path;

use super::files::{
    BLOCKS, BLOCKS_NEW, LOCK, LOTS, MANIFEST, MANIFEST_NEW, REPLACED, REPORT, SHARDS, SHARDS_NEW,
    STARTED, STARTED_NEW, WORK, number_of_shard,
};
use super::shards::arrangement;
use super::shards::lines::count_listed;
use crate::config::Format;
use crate::config::identity::Identity;
use crate::error::Error;
use crate::util::disk::regular::{self, Links};

/// The names that runs have written into a work folder so far.
#[derive(Debug)]
pub(crate) struct Written {
    /// The shards that its list names. A run writes one more before it lists that one too.
    shards: usize,
}

impl Written {
    /// The names in the work folder `work`.
    pub(crate) fn find(work: &Path) -> Self {
        let mut text = Vec::new();
        // A list that cannot be read names none. One of another job, or a damaged one, has as many lines.
        let _ = regular::open(&work.join(SHARDS), Links::Refused)
            .and_then(|mut list| list.read_to_end(&mut text));
        Self { shards: count_listed(&text) }
    }

    /// Whether a run of the job `job` has written a file of this name.
    pub(crate) fn has(&self, name: &str, job: &Identity) -> bool {
        let is_shard = |format: Format| name.ends_with(&format!(".{}", format.extension()));
        self.has_of_any_job(name) || (job.is_per_file() && Format::all().any(is_shard))
    }

    /// Whether a run of any job, but for those that name outputs after inputs, has written a file of this name.
    pub(crate) fn has_of_any_job(&self, name: &str) -> bool {
        match number_of_shard(name) {
            Some(number) => number <= self.shards,
            None => is_of_any_job(name),
        }
    }
}

/// Whether a run of any job, but for those that name outputs after inputs, may write a file of this name into the
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
    ours.contains(&name) || arrangement::describes(name) || number_of_shard(name).is_some()
}

/// The error for the file `name` in the work folder of `dir`, which fastpack did not write.
pub(super) fn foreign(dir: &Path, name: &str) -> Error {
    let reason = format!(
        "holds `{WORK}/{name}`, which fastpack did not write, or which has changed since; move `{WORK}` away, or write to another folder"
    );
    Error::output(dir, reason)
}
