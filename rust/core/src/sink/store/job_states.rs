//! [`JobState`] and the steps of a job between its states: [`open`] for one process; [`join`] and [`gather`] for groups.
//!
//! ```text
//!           ┌───────── open: one process packs it ─────────┐
//!           │                                              ▼
//!         Absent ── join: groups ──► Underway ── gather ──► Finished
//! ```
//!
//! A job is still underway while its output is put together from its groups, and after a kill until these are removed.

use chrono::NaiveDateTime;

use super::job_store::{JobStore, OpenOutput, OpenedJob};
use crate::error::Result;
use crate::util::control::Control;

/// The state of a job in its store.
#[derive(Debug)]
pub enum JobState<T, F = String> {
    /// Nothing of it is there, or it is not known to others.
    Absent,
    /// It has begun, and is not finished.
    Underway(T),
    /// All of its files are there. By default with the content of its `report.json`.
    Finished(F),
}

impl JobState<NaiveDateTime> {
    /// The state of the job of a store: underway with groups since some time, finished, or neither.
    fn of(store: &dyn JobStore) -> Result<Self> {
        // The record names every input: its memory is freed before that of another is needed.
        let started = store.started()?.filter(|it| it.job.differences(store.job()).is_none());
        if let Some(now) = started.map(|it| it.now) {
            return Ok(Self::Underway(now));
        }
        Ok(store.finished()?.map_or(Self::Absent, Self::Finished))
    }
}

/// Opens the output of a job for this process, unless the job is finished there.
pub(crate) fn open(
    store: &dyn JobStore,
    now: NaiveDateTime,
    control: &Control,
) -> Result<OpenedJob<OpenOutput>> {
    let output = store.output();
    let again = output.overwrite && !output.shared;
    let finished = || if output.cannot_resume { Ok(None) } else { store.finished() };
    // Without a lock: a finished folder may be read-only.
    if !again && let Some(report) = finished()? {
        tidy(store, control)?;
        return Ok(OpenedJob::Finished(report));
    }
    let alone = store.alone(control)?;
    // The run that held the lock may have finished this job, which must not be repeated.
    if (alone.waited() || !again)
        && let Some(report) = finished()?
    {
        return Ok(OpenedJob::Finished(report));
    }
    alone.open(now, control)
}

/// Joins the processes that pack the groups of a job, or begins the job at the time `now`. Returns the time at which it began.
pub(crate) fn join(
    store: &mut dyn JobStore,
    now: NaiveDateTime,
    control: &Control,
) -> Result<OpenedJob<NaiveDateTime>> {
    let again = store.output().overwrite && !store.output().shared;
    loop {
        control.tick()?;
        match JobState::of(store)? {
            JobState::Underway(now) if store.share(now, control)? => {
                return Ok(OpenedJob::Ready(now));
            }
            JobState::Finished(report) if !again => {
                tidy(store, control)?;
                return Ok(OpenedJob::Finished(report));
            }
            _ => begin(store, now, control)?,
        }
    }
}

/// Begins a job with groups, unless another process does so, or has finished it.
fn begin(store: &dyn JobStore, now: NaiveDateTime, control: &Control) -> Result<()> {
    let alone = store.alone(control)?;
    match JobState::of(store)? {
        JobState::Underway(_) => Ok(()),
        JobState::Finished(_) if alone.waited() || !store.output().overwrite => Ok(()),
        _ => alone.begin(now, control),
    }
}

/// Opens the output of a job whose groups are packed, for the process that puts it together. It is absent if another process has removed
/// the groups.
pub(crate) fn gather(store: &dyn JobStore, control: &Control) -> Result<JobState<OpenOutput>> {
    let alone = store.alone(control)?;
    Ok(match JobState::of(store)? {
        JobState::Underway(now) => {
            if !store.output().overwrite
                && let Some(report) = store.finished()?
            {
                // A run was killed after it had put the output together.
                alone.remove_work()?;
                return Ok(JobState::Finished(report));
            }
            match alone.open(now, control)? {
                OpenedJob::Ready(output) => JobState::Underway(output),
                OpenedJob::Finished(report) => JobState::Finished(report),
            }
        }
        JobState::Finished(report) => JobState::Finished(report),
        JobState::Absent => JobState::Absent,
    })
}

/// Removes what a run has left that was killed after it had finished the job. Groups of another job stay.
fn tidy(store: &dyn JobStore, control: &Control) -> Result<()> {
    if store.started()?.is_none() { store.tidy(control) } else { Ok(()) }
}
