//! The state of a job in a bucket, for those who ask while others work on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::work::{STATE, started, work};
use crate::config::RemoteOutput;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::files::MANIFEST;
use crate::sink::groups::group_files;
use crate::sink::groups::group_files::{FAILED, Failed, LOCK_ENDING};
use crate::sink::groups::group_states::{GroupState, StepState, Underway};
use crate::sink::manifest::Manifest;
use crate::storage::{LOCK, Target};
use crate::util::control::Control;
use crate::util::disk::sealed;
use crate::util::ordered::ordered;
use crate::util::threads::WAITING;

/// The ending of the record of a group that has finished a step.
const RECORDED: &str = ".json";

/// A job in a bucket.
#[derive(Debug)]
pub enum JobInBucket {
    /// It is not finished.
    Underway(Underway),
    /// It is finished.
    Finished(Arc<Identity>),
}

/// The job in a bucket; `None` if there is none.
pub fn job_in_bucket(remote: &RemoteOutput, control: &Control) -> Result<Option<JobInBucket>> {
    let target = Target::open(&remote.url, &remote.storage, control.flag())?;
    let Some(Manifest { job, now, .. }) = started(&target)? else {
        let finished = target.read(MANIFEST)?.and_then(|text| Manifest::parse(&text));
        return Ok(finished.map(|manifest| JobInBucket::Finished(manifest.job)));
    };
    let folder = work(&format!("{STATE}/{}/", job.name()));
    let entries = target.entries_in(&folder)?;
    let mut groups: BTreeMap<u64, GroupState> = BTreeMap::new();
    let mut failed = Vec::new();
    for entry in &entries {
        let Some(name) = entry.name.strip_prefix(&folder) else { continue };
        let Some((group, step)) = group_files::parse(name) else { continue };
        let steps = &mut groups.entry(group).or_default().steps;
        if step == FAILED {
            failed.push((group, entry.name.clone()));
        } else if let Some(step) = step.strip_suffix(RECORDED) {
            steps.insert(step.to_owned(), StepState::Done);
        } else if let Some(step) = step.strip_suffix(LOCK_ENDING) {
            let is_held = target.is_held(entry);
            let state = if is_held { StepState::Running } else { StepState::Stopped };
            steps.entry(step.to_owned()).or_insert(state);
        }
    }
    let mut failed = failed.into_iter();
    let read = |(group, name): (u64, String)| {
        control.tick()?;
        let text = target.read(&name)?.filter(|text| sealed::is_whole(text));
        let failed = text.and_then(|text| serde_json::from_slice::<Failed>(&text).ok());
        Ok::<_, Error>((group, failed.map(|failed| failed.error)))
    };
    ordered(
        WAITING,
        || Ok(failed.next()),
        || read,
        |(group, error)| {
            groups.entry(group).or_default().failed = error;
            Ok(())
        },
    )?;
    let is_running = target
        .entries_in(&work(""))?
        .iter()
        .any(|entry| entry.name == LOCK && target.is_held(entry));
    Ok(Some(JobInBucket::Underway(Underway { job, now, is_running, groups })))
}
