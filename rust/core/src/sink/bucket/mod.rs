//! [`OutputBucket`]: an output folder in a bucket. The job runs in a folder of the local disk. Its shards may be uploaded before it has
//! finished, its other files afterwards, the manifest last.
//!
//! Begin with [`output_bucket`]. [`finished_jobs`] looks for an output that is there, [`local_folder`] is the folder of the local disk.

mod finished_jobs;
pub(super) mod job_files;
pub(super) mod lease_guard;
mod local_folder;
mod output_bucket;
pub(super) mod replaced_outputs;
pub(super) mod run_names;
pub(super) mod single_files;
mod uploaded_copies;
pub(super) mod uploads;

pub(super) use finished_jobs::{finished, finished_job_in, remove_work, tidy};
pub(super) use local_folder::{guard, owner, remove_finished};
pub(crate) use output_bucket::OutputBucket;
pub(super) use run_names::TRIAL;
