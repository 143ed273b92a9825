//! [`Underway`]: a job that is not finished, and the states of its groups.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;

use super::group_files::{self, FAILED, Failed};
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::files::{MANIFEST, STARTED, WORK};
use crate::sink::folder::lock::is_taken;
use crate::sink::manifest::Manifest;
use crate::sink::work_names::foreign;
use crate::util::disk::regular::Links;
use crate::util::disk::sealed;
use crate::util::disk::sealed::Sealed;

/// A job that has begun in a folder, and is not finished.
#[derive(Debug)]
pub struct Underway {
    /// The identity of the job.
    pub job: Arc<Identity>,
    /// The time at which it began.
    pub now: NaiveDateTime,
    /// True if one process works on the whole of it.
    pub is_running: bool,
    /// The states of its groups, if it has groups. Those that no process has begun are left out.
    pub groups: BTreeMap<u64, GroupState>,
}

/// The state of a group that a process has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// The state of each step that has begun, by its name.
    pub steps: BTreeMap<String, StepState>,
    /// The error that ended its last run.
    pub failed: Option<String>,
}

/// The state of a step of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// It is finished.
    Done,
    /// A process works on it.
    Running,
    /// A process has begun it, and ended before it was finished.
    Stopped,
}

/// The job that is underway in the folder `dir`; `None` if there is none.
pub fn underway(dir: &Path) -> Result<Option<Underway>> {
    let work = dir.join(WORK);
    let path = work.join(STARTED);
    let mut started = Manifest::read(&path, Links::Refused)?;
    if started.is_none() && path.symlink_metadata().is_ok() {
        // It may have come to lie there since.
        started = Manifest::read(&path, Links::Refused)?;
        if started.is_none() && path.symlink_metadata().is_ok() {
            return Err(foreign(dir, STARTED));
        }
    }
    let Some(Manifest { job, now, .. }) = started else { return Ok(None) };
    let folder = group_files::folder(&work);
    let mut groups: BTreeMap<u64, GroupState> = BTreeMap::new();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io(folder)(error)),
    };
    for entry in entries.into_iter().flatten() {
        let entry = entry.map_err(Error::io(&*folder))?;
        let (path, name) = (entry.path(), entry.file_name());
        let Some((group, step)) = name.to_str().and_then(group_files::parse) else { continue };
        let state = groups.entry(group).or_default();
        if step == FAILED {
            state.failed = failure(&path);
        } else {
            state.steps.insert(step.to_owned(), step_of(&path));
        }
    }
    Ok(Some(Underway { job, now, is_running: is_taken(&work), groups }))
}

/// The state of the step of a group in the folder `dir`.
fn step_of(dir: &Path) -> StepState {
    if dir.join(MANIFEST).symlink_metadata().is_ok() {
        StepState::Done
    } else if is_taken(&dir.join(WORK)) {
        StepState::Running
    } else {
        StepState::Stopped
    }
}

/// The message of a failed group.
fn failure(path: &Path) -> Option<String> {
    let Ok(Sealed::Whole(text)) = sealed::read(path, Links::Refused) else { return None };
    serde_json::from_slice::<Failed>(&text).ok().map(|failed| failed.error)
}
