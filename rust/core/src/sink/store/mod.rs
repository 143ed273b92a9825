//! The stores of the output of a job: a folder of the disk, and a folder of a bucket. This is the only place that chooses between them.

mod bucket_store;
pub(super) mod coordination_files;
mod disk_store;
pub(super) mod job_states;
pub(super) mod job_store;

use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;

use self::bucket_store::{BucketRecords, BucketStore};
use self::disk_store::{DiskRecords, DiskStore};
use self::job_states::JobState;
use self::job_store::{JobStore, OpenOutput, OpenedJob};
use super::bucket::finished_job_in;
use super::folder::output_survey::finished_job;
use super::groups::group_states::UnfinishedJob;
use crate::config::identity::Identity;
use crate::config::{Output, RemoteOutput};
use crate::error::Result;
use crate::storage::BucketFolder;
use crate::util::control::Control;

/// The store of the output of a job.
pub(crate) fn of(
    output: &Output,
    job: &Arc<Identity>,
    control: &Control,
) -> Result<Box<dyn JobStore>> {
    Ok(match &output.remote {
        None => Box::new(DiskStore::open(output.clone(), job)?),
        Some(remote) => Box::new(BucketStore::open(output, remote, job, control)?),
    })
}

/// Opens the output for the job with the identity `job`, and creates it if needed.
///
/// It takes over the files of an unfinished run of the same job, if they have the recorded hashes. If
/// [`output.overwrite`](Output::overwrite) is true, the job runs even if it has finished here before. The old output of any
/// job is replaced once the new output is whole: only the files that a manifest of fastpack lists with the same sizes and hashes.
/// Other files stay, and a run that fails before that changes nothing. Where several ranks share the job, it
/// runs once for all.
///
/// Fails with [`Error::Busy`](crate::Error::Busy) if another run writes there and this one must not wait; with
/// [`Error::Output`](crate::Error::Output) if other files are in the place of this job's files; if a store of buckets cannot keep two
/// writers apart; and, unless earlier output may be replaced, if there is anything besides the output or leftovers of this job. Fails
/// with [`Error::Io`](crate::Error::Io) if it cannot be read or written, and with the error of a run of the same job that it waited for.
pub fn open(
    output: &Output,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<OpenedJob<OpenOutput>> {
    job_states::open(&*of(output, job, control)?, now, control)
}

/// The job in a folder of the disk or of a bucket, for those who ask while others work on it.
pub fn find(
    dir: &Path,
    remote: Option<&RemoteOutput>,
    control: &Control,
) -> Result<JobState<UnfinishedJob, Arc<Identity>>> {
    let finished = match remote {
        None => {
            if let Some((started, records)) = DiskRecords::find(dir)? {
                let found = UnfinishedJob::of(started, &records, control)?;
                return found.on_disk(dir).map(JobState::Underway);
            }
            finished_job(dir)?
        }
        Some(remote) => {
            let target =
                Arc::new(BucketFolder::open(&remote.url, &remote.storage, control.flag())?);
            if let Some((started, records)) = BucketRecords::find(&target)? {
                return UnfinishedJob::of(started, &records, control).map(JobState::Underway);
            }
            finished_job_in(&target)?
        }
    };
    Ok(finished.map_or(JobState::Absent, JobState::Finished))
}
