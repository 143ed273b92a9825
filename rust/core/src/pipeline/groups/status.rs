//! [`status`]: the progress of a job, running, stopped or failed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::group::GroupStep;
use super::group_inputs::cut;
use crate::config::RemoteOutput;
use crate::config::identity::{Identity, ReadAs};
use crate::document::store::LogProgress;
use crate::error::{Error, Result};
use crate::report::timing::ratio;
use crate::sink::{self, GroupState, JobState, StepState, UnfinishedJob, finished_in};
use crate::source::{BLOCK_BYTES, Container, format_by_name};
use crate::storage::public;
use crate::util::control::Control;

/// The most failures that a status names.
const NAMED: usize = 20;

/// The state of a job in an output folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// `finished`, `running` or `stopped`.
    pub state: String,
    /// The time at which the job began, without a zone; `None` for a finished one.
    pub started: Option<String>,
    /// The input files.
    pub files: u64,
    /// The bytes of the input files.
    pub bytes: u64,
    /// The documents whose tokens are made; `None` for a finished job, one with groups and one in a bucket.
    pub documents: Option<u64>,
    /// The share of the input whose tokens are made, at least; `None` where that is not known.
    pub share: Option<f64>,
    /// The finished shards; `None` where `documents` is.
    pub shards: Option<u64>,
    /// The steps of the job, in their order, and its groups in each.
    pub steps: Vec<GroupCount>,
    /// The groups that failed, by number, and why: the first ones.
    pub failed: Vec<(u64, String)>,
}

impl Status {
    /// The status as JSON.
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings are always JSON")
    }
}

/// The number of groups in each state of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupCount {
    /// The name of the step: `tokens` or `rows`.
    pub step: String,
    /// All groups.
    pub groups: u64,
    /// The groups that have finished it.
    pub done: u64,
    /// The groups that a process works on.
    pub running: u64,
    /// The groups that a process began, and ended before it had finished them.
    pub stopped: u64,
    /// The stopped groups that ended with an error.
    pub failed: u64,
    /// The groups that no process has begun.
    pub waiting: u64,
}

/// The state of the job in the folder `dir` of the disk, or in a folder of a bucket.
///
/// Fails with [`Error::Output`] if the folder holds no job.
pub fn status(dir: &Path, remote: Option<&RemoteOutput>, control: &Control) -> Result<Status> {
    match sink::find(dir, remote, control)? {
        JobState::Underway(found) => of_underway(&found),
        JobState::Finished(job) => Ok(of_finished(&job)),
        JobState::Absent => Err(no_job(Path::new(&public(&dir.to_string_lossy())))),
    }
}

/// The state of the finished job whose manifest `text` is, in the folder `dir`.
///
/// Fails with [`Error::Output`] if it is no manifest that fastpack wrote.
pub fn status_of_manifest(text: &[u8], dir: &Path) -> Result<Status> {
    finished_in(text).map(|job| of_finished(&job)).ok_or_else(|| no_job(dir))
}

fn no_job(dir: &Path) -> Error {
    let reason = "holds no job of fastpack: neither a manifest, nor a job that has begun";
    Error::output(dir, reason)
}

/// The state of a finished job.
fn of_finished(job: &Identity) -> Status {
    let (files, bytes) = files_of(job);
    let count = |step: &str, groups| GroupCount {
        step: step.to_owned(),
        groups,
        done: groups,
        ..GroupCount::default()
    };
    let groups = groups_of(job);
    let steps = steps_of(job).iter().map(|step| count(step.name(), groups)).collect();
    Status {
        state: "finished".to_owned(),
        started: None,
        files,
        bytes,
        documents: None,
        share: None,
        shards: None,
        steps,
        failed: Vec::new(),
    }
}

/// The state of a job that is not finished.
fn of_underway(found: &UnfinishedJob) -> Result<Status> {
    let groups = groups_of(&found.job);
    let (files, bytes) = files_of(&found.job);
    let all = steps_of(&found.job);
    let is_done = |steps: &BTreeMap<String, StepState>, step: GroupStep| {
        steps.get(step.name()) == Some(&StepState::Done)
    };
    let steps = all.iter().enumerate().map(|(number, step)| {
        let earlier = &all[..number];
        let mut count =
            GroupCount { step: step.name().to_owned(), groups, ..GroupCount::default() };
        for GroupState { steps, failed } in found.groups.values() {
            match (steps.get(step.name()), failed) {
                (Some(StepState::Done), _) => count.done += 1,
                (Some(StepState::Running), _) => count.running += 1,
                (Some(StepState::Stopped), Some(_)) => count.failed += 1,
                (Some(StepState::Stopped), None) => count.stopped += 1,
                // A lock that was given back may leave nothing of a step that has failed.
                (None, Some(_)) if earlier.iter().all(|it| is_done(steps, *it)) => {
                    count.failed += 1;
                }
                (None, _) => {}
            }
        }
        let begun = count.done + count.running + count.failed + count.stopped;
        GroupCount { waiting: groups.saturating_sub(begun), ..count }
    });
    let steps: Vec<GroupCount> = steps.collect();
    let is_running = found.is_running || steps.iter().any(|count| count.running > 0);
    let failed = found
        .groups
        .iter()
        .filter(|(_, state)| !state.steps.values().any(|step| *step == StepState::Running));
    let failed = failed.filter_map(|(group, state)| Some((*group, state.failed.clone()?)));
    let own = found.own.as_ref();
    let progress = own.map(|own| LogProgress::read(&own.log)).transpose()?;
    Ok(Status {
        state: if is_running { "running" } else { "stopped" }.to_owned(),
        started: Some(found.now.to_string()),
        files,
        bytes,
        documents: progress.as_ref().map(|progress| progress.documents),
        share: progress.as_ref().and_then(|progress| share_of(&found.job, progress)),
        shards: own.map(|own| own.shards),
        steps,
        failed: failed.take(NAMED).collect(),
    })
}

/// The share of the input of which blocks are made, at least: the files before the one of the last block, and the blocks of that
/// file where these are of a known size. `None` if files are read several times or in part, or none has bytes.
fn share_of(job: &Identity, progress: &LogProgress) -> Option<f64> {
    if job.row_options.as_ref().is_some_and(|rows| rows.shares.is_some())
        || !job.sources.iter().all(ReadAs::is_whole)
    {
        return None;
    }
    let sizes = job.sized_files();
    let all: u64 = sizes.iter().map(|file| file.bytes).sum();
    let Some(last) = &progress.file else { return Some(0.0).filter(|_| all > 0) };
    let at = job.files().iter().position(|file| **file == **last)?;
    let before: u64 = sizes[..at].iter().map(|file| file.bytes).sum();
    let of_last = match format_by_name(last) {
        (Some(Container::Lines), None) => {
            sizes[at].bytes.min(progress.blocks_of_file.saturating_mul(BLOCK_BYTES as u64))
        }
        _ => 0,
    };
    (all > 0).then(|| ratio(before + of_last, all))
}

/// The steps of a job that has groups; none for others.
fn steps_of(job: &Identity) -> &'static [GroupStep] {
    let output = job.output.as_ref().filter(|output| output.group_bytes.is_some());
    output.map_or(&[], |output| GroupStep::of(output.validation))
}

/// The number of groups of a job.
fn groups_of(job: &Identity) -> u64 {
    let Some(most) = job.output.as_ref().and_then(|output| output.group_bytes) else { return 0 };
    cut(&job.sized_files(), most).len() as u64
}

/// The number of input files of a job, and their bytes, counted once for each reading.
fn files_of(job: &Identity) -> (u64, u64) {
    let files = job.sized_files();
    (files.len() as u64, files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes)))
}
