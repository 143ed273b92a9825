//! [`UnfinishedJob`]: a job that is not finished, and the states of its groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDateTime;

use super::group_files::{self, FAILED, GroupFailure, LOCK_ENDING, RECORD_ENDING};
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::file_names::{BLOCKS, WORK};
use crate::sink::manifest::Manifest;
use crate::sink::shards::finished_list::FinishedList;
use crate::sink::store::coordination_files::{RecordStore, object};
use crate::util::control::Control;
use crate::util::start_thread::FILE_THREADS;
use crate::util::threads_in_order::ordered;

/// A job that has begun in a folder, and is not finished.
#[derive(Debug)]
pub struct UnfinishedJob {
    /// The identity of the job.
    pub job: Arc<Identity>,
    /// The time at which it began.
    pub now: NaiveDateTime,
    /// True if one process works on the whole of it.
    pub is_running: bool,
    /// The states of its groups, if it has groups. Those that no process has begun are left out.
    pub groups: BTreeMap<u64, GroupState>,
    /// The progress of a job without groups on the disk.
    pub own: Option<OwnProgress>,
}

/// The progress of a job that one process works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProgress {
    /// The log of finished blocks.
    pub log: PathBuf,
    /// The finished shards.
    pub shards: u64,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepState {
    /// It is finished.
    Done,
    /// A process works on it.
    Running,
    /// A process has begun it, and ended before it was finished.
    Stopped,
}

impl UnfinishedJob {
    /// The job that its record and the records of its groups tell of.
    pub(crate) fn of(
        started: Manifest,
        records: &dyn RecordStore,
        control: &Control,
    ) -> Result<Self> {
        let Manifest { job, now, .. } = started;
        let groups = states(records, control)?;
        Ok(Self { job, now, is_running: records.is_locked()?, groups, own: None })
    }

    /// Adds the progress of a job without groups, from its folder `dir` on the disk.
    pub(crate) fn on_disk(self, dir: &Path) -> Result<Self> {
        if self.job.is_grouped() {
            return Ok(self);
        }
        let work = dir.join(WORK);
        let shards = FinishedList::read(&work, &self.job.name())?.len() as u64;
        Ok(Self { own: Some(OwnProgress { log: work.join(BLOCKS), shards }), ..self })
    }
}

/// The states of the groups that have records or locks.
fn states(records: &dyn RecordStore, control: &Control) -> Result<BTreeMap<u64, GroupState>> {
    let mut groups: BTreeMap<u64, GroupState> = BTreeMap::new();
    let mut failed = Vec::new();
    for record in records.list()? {
        let Some((group, step)) = group_files::parse(&record.name) else { continue };
        if step == FAILED {
            failed.push((group, record.name));
            continue;
        }
        let (step, state) = if let Some(step) = step.strip_suffix(RECORD_ENDING) {
            (step, StepState::Done)
        } else if let Some(step) = step.strip_suffix(LOCK_ENDING) {
            let is_held = records.is_held(&record);
            (step, if is_held { StepState::Running } else { StepState::Stopped })
        } else {
            continue;
        };
        let known = groups.entry(group).or_default().steps.entry(step.to_owned());
        known.and_modify(|known| *known = state.min(*known)).or_insert(state);
    }
    let mut failed = failed.into_iter();
    let read = |(group, name): (u64, String)| {
        control.tick()?;
        Ok::<_, Error>((group, object::<GroupFailure>(records, &name)?.map(|failed| failed.error)))
    };
    let take = |(group, error)| {
        groups.entry(group).or_default().failed = error;
        Ok(())
    };
    ordered(FILE_THREADS, || Ok(failed.next()), || read, take)?;
    Ok(groups)
}
