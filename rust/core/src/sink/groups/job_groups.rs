//! [`Groups`]: the groups of a job, with the state, the holder and the files of each.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use chrono::NaiveDateTime;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::group_files;
use super::group_files::{DECIDED, GroupFailure, failed_name, folder_name, lock_name, record_name};
use super::packed_group::PackedGroup;
use crate::config::Output;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::bucket::uploads::{locked, with_each};
use crate::sink::folder::lock::busy_error;
use crate::sink::folder::{OutputFolder, discarded_outputs, output_survey};
use crate::sink::manifest::{SizedFile, WrittenShard};
use crate::sink::store;
use crate::sink::store::coordination_files::{HeldLock, explained, object};
use crate::sink::store::job_states;
use crate::sink::store::job_states::JobState;
use crate::sink::store::job_store::{JobStore, OpenOutput, OpenedJob};
use crate::util::control::Control;
use crate::util::disk::sealed;
use crate::util::message::in_one_line;

/// The shortest time between two lists of the records.
const REFRESH: Duration = Duration::from_secs(1);

/// A list is made again after this many times the time that it took, so that a process works most of the time.
const WORK_TO_LIST: u32 = 10;

/// The groups of a job in its store. While they are shared, no other job takes the output.
#[derive(Debug)]
pub struct Groups {
    store: Box<dyn JobStore>,
    now: NaiveDateTime,
    listed: Mutex<ListedRecords>,
}

/// The records of groups, as they were last listed.
#[derive(Debug, Default)]
struct ListedRecords {
    names: HashSet<String>,
    /// When the next list is due.
    due: Option<Instant>,
    /// True if the job had ended.
    is_over: bool,
}

/// A group that this process works on, until this is dropped.
#[derive(Debug)]
pub struct GroupHold(Box<dyn HeldLock>);

/// Joins the processes that pack the groups of the job with the identity `job`, or begins the job at the time
/// `now`.
///
/// Fails as [`open`](crate::sink::open) does.
pub fn join(
    output: &Output,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<OpenedJob<Groups>> {
    let mut store = store::of(output, job, control)?;
    Ok(match job_states::join(&mut *store, now, control)? {
        OpenedJob::Ready(now) => OpenedJob::Ready(Groups { store, now, listed: Mutex::default() }),
        OpenedJob::Finished(report) => OpenedJob::Finished(report),
    })
}

impl Groups {
    /// The time of day that templates see: the start of the first run of the job.
    pub fn now(&self) -> NaiveDateTime {
        self.now
    }

    /// Groups that other processes may remove: the hold of this process ends.
    #[must_use]
    pub fn released(mut self) -> Self {
        self.store.release();
        self.listed().due = None;
        self
    }

    /// True if locks tell which groups are being packed.
    pub fn has_locks(&self) -> bool {
        self.store.has_locks()
    }

    /// The folder of the local disk in which a group is packed in a step.
    pub fn folder(&self, group: u64, step: &str) -> PathBuf {
        self.store.folder(&folder_name(group, step))
    }

    /// Lists the records again, if it was long ago. Returns whether the job has ended: then its groups are no more.
    pub fn refresh(&self) -> Result<bool> {
        let mut listed = self.listed();
        if listed.due.is_none_or(|due| Instant::now() >= due) {
            let began = Instant::now();
            let records = self.store.records().list()?;
            listed.names = records.into_iter().map(|record| record.name).collect();
            listed.is_over = !self.store.is_underway()?;
            let taken = began.elapsed();
            listed.due = Some(Instant::now() + REFRESH.max(WORK_TO_LIST * taken));
        }
        Ok(listed.is_over)
    }

    /// True if a group had finished a step when the records were last listed.
    pub fn is_done(&self, group: u64, step: &str) -> bool {
        self.listed().names.contains(&record_name(group, step))
    }

    /// Keeps other processes from working on a group; `None` if it has finished the step.
    ///
    /// Fails with [`Error::Busy`] if another process works on it, or the job has ended.
    pub fn hold(&self, group: u64, step: &str) -> Result<Option<GroupHold>> {
        let busy = || busy_error(&self.folder(group, step));
        let hold = self.store.hold(&lock_name(group, step))?.ok_or_else(busy)?;
        // The record is looked for before the job: where the job has ended, its record is removed first.
        if self.store.records().read(&record_name(group, step))?.is_some() {
            return Ok(None);
        }
        if self.store.is_underway()? { Ok(Some(GroupHold(hold))) } else { Err(busy()) }
    }

    /// Gives a group that is packed to all processes: its files, and then its record.
    ///
    /// Fails with [`Error::Busy`] if another process has taken it meanwhile.
    pub fn publish(
        &self,
        hold: &GroupHold,
        group: u64,
        step: &str,
        job: &Identity,
        control: &Control,
    ) -> Result<()> {
        let (name, dir) = (folder_name(group, step), self.folder(group, step));
        let Some((manifest, report)) = output_survey::whole(&dir, job)? else {
            return Err(Error::output(dir, "has changed since it was packed; run again"));
        };
        let mut it = PackedGroup::at(dir, manifest, report);
        let etags = Mutex::new(BTreeMap::new());
        let keep = |file: SizedFile<'_>| {
            let etag = self.store.keep(&name, file, control)?;
            locked(&etags).extend(etag.map(|etag| (file.name.to_owned(), etag)));
            Ok(())
        };
        let kept = with_each(&*hold.0, it.kept(), keep, control);
        explained(&*hold.0, kept, control)?;
        hold.0.check(control)?;
        it.etags = std::mem::take(&mut *locked(&etags));
        self.store.records().write(&record_name(group, step), &sealed::seal(&it))?;
        self.listed().names.insert(record_name(group, step));
        self.store.forget(&name);
        Ok(())
    }

    /// A group that has finished a step with this identity; `None` if it has not, or if a file on the disk is not as long as it was, or a
    /// small one has changed; with `hashed`, also if any byte of a file has changed.
    pub fn packed(
        &self,
        group: u64,
        step: &str,
        job: &Identity,
        hashed: bool,
        control: &Control,
    ) -> Result<Option<PackedGroup>> {
        let Some(it) = self.record(group, step, job)? else { return Ok(None) };
        Ok(self.store.holds(&it, hashed, control)?.then_some(it))
    }

    /// The record of a group that has finished a step with this identity.
    fn record(&self, group: u64, step: &str, job: &Identity) -> Result<Option<PackedGroup>> {
        let name = folder_name(group, step);
        let record = object(self.store.records(), &record_name(group, step))?;
        let own = record.filter(|it: &PackedGroup| it.manifest.job.differences(job).is_none());
        Ok(own.map(|it| PackedGroup { dir: self.store.place(&name), name, ..it }))
    }

    /// [`packed`](Self::packed) and hashed, with all files in a folder of the local disk.
    pub fn fetched(
        &self,
        group: u64,
        step: &str,
        job: &Identity,
        control: &Control,
    ) -> Result<Option<PackedGroup>> {
        let dir = self.folder(group, step);
        let mut found = output_survey::unchanged(&dir, job, control)?;
        if found.is_none()
            && let Some(it) = self.record(group, step, job)?
        {
            self.store.fetch(&it, control)?;
            found = output_survey::unchanged(&dir, job, control)?;
        }
        Ok(found.map(|(manifest, report)| PackedGroup::at(dir, manifest, report)))
    }

    /// The path on the local disk of a file in the folder of a packed group; fails with [`Error::Output`] if it has changed on the way.
    pub fn fetched_file(&self, it: &PackedGroup, name: &str, control: &Control) -> Result<PathBuf> {
        self.store.fetch_file(it, name, control)
    }

    /// Removes the files of a group that [`fetched`](Self::fetched) has downloaded.
    pub fn forget(&self, group: u64, step: &str) {
        self.store.forget(&folder_name(group, step));
    }

    /// Gives shards of packed groups to the output, by their paths.
    pub fn adopt(
        &self,
        to: &mut OutputFolder,
        of: &[(PathBuf, WrittenShard)],
        control: &Control,
    ) -> Result<()> {
        self.store.adopt(to, of, control)
    }

    /// Removes the tokens that a group has made in a step, if they have changed since.
    pub fn discard_tokens(
        &self,
        group: u64,
        step: &str,
        job: &Identity,
        control: &Control,
    ) -> Result<()> {
        discarded_outputs::discard(&self.folder(group, step), job, control)?;
        self.remove_record(&record_name(group, step))
    }

    /// Removes the files that a group has made in a step, because the group has changed since. Only the process
    /// that has the output for itself may do so.
    pub fn discard(&self, group: u64, step: &str) -> Result<()> {
        self.remove_record(&record_name(group, step))?;
        group_files::remove_group(&self.folder(group, step));
        Ok(())
    }

    fn remove_record(&self, name: &str) -> Result<()> {
        self.listed().names.remove(name);
        self.store.records().remove(name)
    }

    /// Records the error that ended the run of a group.
    pub fn fail(&self, group: u64, error: &Error) {
        let text = sealed::seal(&GroupFailure { error: in_one_line(error.to_string()) });
        // The error itself reaches the caller of this process.
        let _ = self.store.records().write(&failed_name(group), &text);
        self.listed().names.insert(failed_name(group));
    }

    /// Forgets the error of an earlier run of a group.
    pub fn forgive(&self, group: u64) {
        if self.listed().names.contains(&failed_name(group)) {
            let _ = self.remove_record(&failed_name(group));
        }
    }

    /// Keeps the decisions of the job for other processes.
    pub fn keep(&self, decided: &impl Serialize) -> Result<()> {
        self.store.records().write(DECIDED, &sealed::seal(decided))
    }

    /// The decision that another process has kept; `None` if none has.
    pub fn kept<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        object(self.store.records(), DECIDED)
    }

    /// Locks the output of the job for this process, which puts it together from the groups.
    ///
    /// Waits until no other process uses the output if it says so, and fails with [`Error::Busy`] otherwise.
    pub fn gather(&self, control: &Control) -> Result<JobState<OpenOutput>> {
        job_states::gather(&*self.store, control)
    }

    /// Removes the folder of the local disk in which this process packed, unless it is the output itself, or another process still works
    /// there.
    pub fn tidy(self, control: &Control) {
        self.store.end(control);
    }

    fn listed(&self) -> MutexGuard<'_, ListedRecords> {
        locked(&self.listed)
    }
}
