//! [`BucketGroups`]: the objects in a bucket that the processes of a job with groups share.
//!
//! ```text
//! packed/.fastpack/
//! ├── lock                       held by the process that begins the job, or puts the output together
//! ├── started.json               the job
//! ├── groups/JOB/00000-rows/     the files of a packed group
//! └── state/JOB/
//!     ├── 00000-rows.lock        held by the process that packs the group
//!     ├── 00000-rows.json        the record of a packed group: it is written after its files
//!     ├── 00001-failed.json      the error that ended the last run of a group
//!     └── decided.json           the decisions of the job, after all groups are read
//! ```
//!
//! Each process packs a group on its local disk, and uploads it. The folders of groups are named after their job, so that a
//! process that has not yet heard of its end writes nowhere that another job reads.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use chrono::NaiveDateTime;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::group_files::{
    DECIDED, FAILED, Failed, LOCK_ENDING, NEW_ENDING, folder_name, remove_group,
};
use crate::config::identity::Identity;
use crate::config::{Output, RemoteOutput};
use crate::error::{Error, Result};
use crate::sink::bucket::earlier::Earlier;
use crate::sink::bucket::record::GroupUpload;
use crate::sink::bucket::uploads::{PlannedUpload, locked, opened, with_each};
use crate::sink::bucket::work::{RunNames, STATE, WorkNames, remove_groups, started, work};
use crate::sink::bucket::{Bucket, TRIAL, finished, finished_and_tidy, guard, owner};
use crate::sink::files::{GROUPS, MANIFEST, REPORT, STARTED};
use crate::sink::folder::survey;
use crate::sink::folder::{Folder, Opened, open};
use crate::sink::manifest::{Manifest, expected};
use crate::storage::{LOCK, Lease, ListedObject, SeenLocks, Target};
use crate::util::control::Control;
use crate::util::disk::regular;
use crate::util::disk::removal::{Temporary, prove};
use crate::util::disk::sealed;
use crate::util::message::in_one_line;

/// The ending of the record of a packed group.
const RECORD: &str = "json";

/// The ending of the folder of the local disk in which groups are packed.
const PACKED_ENDING: &str = "groups";

/// The ending of the folder of the local disk in which the output is put together.
const WHOLE_ENDING: &str = "whole";

/// The shortest time between two lists of the states of groups.
const REFRESH: Duration = Duration::from_secs(1);

/// A list is made again after this many times the time that it took, so that a process works most of the time.
const WORK_TO_LIST: u32 = 10;

/// The groups of a job in a bucket.
#[derive(Debug)]
pub(crate) struct BucketGroups {
    target: Arc<Target>,
    /// The short name of the job.
    job: String,
    owner: String,
    seen: SeenLocks,
    listed: Mutex<ListedStates>,
}

/// The states of groups, as they were last listed.
#[derive(Debug, Default)]
struct ListedStates {
    /// The names of the objects.
    names: HashSet<String>,
    /// When the next list is due.
    due: Option<Instant>,
    /// True if the job had ended.
    is_over: bool,
}

/// A group that this process alone works on.
#[derive(Debug)]
pub(crate) struct HeldGroup {
    lease: Lease,
    /// Keeps away the other processes that use the same folder of the local disk: they have the same name.
    _file: fs::File,
}

/// A try to hold a group.
pub(crate) enum Try {
    Held(HeldGroup),
    /// Another process works on it, or the job has ended.
    Busy,
    /// It is packed.
    Done,
}

/// A job of groups in a bucket, before its groups are packed.
pub(crate) enum JoinedInBucket {
    Groups(BucketGroups, NaiveDateTime),
    /// It has finished there before: the content of its `report.json`.
    Finished(String),
}

/// The folder of the local disk in which groups are packed for the bucket.
pub(crate) fn local(output: &Output) -> Output {
    let dir = output.dir.with_extension(PACKED_ENDING);
    Output { dir, remote: None, overwrite: true, shared: true, wait: true, ..output.clone() }
}

/// Joins the processes that pack the groups of a job, or begins the job at the time `now`.
pub(crate) fn join(
    (output, remote): (&Output, &RemoteOutput),
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<JoinedInBucket> {
    let target = Arc::new(Target::open(&remote.url, &remote.storage, control.flag())?);
    let owner = owner(&output.dir);
    let again = output.overwrite && !output.shared;
    loop {
        control.tick()?;
        if let Some(started) = started(&target)?.filter(|it| it.job.differences(job).is_none()) {
            let (seen, listed) = (SeenLocks::default(), Mutex::default());
            let groups = BucketGroups { target, job: job.name(), owner, seen, listed };
            return Ok(JoinedInBucket::Groups(groups, started.now));
        }
        if !again && let Some(report) = finished_and_tidy(&target, output, job, control)? {
            return Ok(JoinedInBucket::Finished(report));
        }
        begin((output, &target), &owner, job, now, control)?;
    }
}

/// Begins the job, unless another process does so, or has finished it.
fn begin(
    (output, target): (&Output, &Target),
    owner: &str,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<()> {
    let _guard = guard(&output.dir, target, output.wait, control)?;
    let lease = target.lock(LOCK, owner, output.wait, control)?;
    target.refuse_unconditional(&lease)?;
    let begun = begin_alone((output, target), owner, job, now, control);
    target.unlock(lease);
    begun
}

fn begin_alone(
    (output, target): (&Output, &Target),
    owner: &str,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<()> {
    let other = match started(target)? {
        Some(started) if started.job.differences(job).is_none() => return Ok(()),
        other => other,
    };
    if !output.overwrite && other.is_none() && finished(target, job)?.is_some() {
        return Ok(());
    }
    Earlier::find(target, output, job, control)?;
    for lock in target.entries_in(&work(STATE))? {
        if lock.name.ends_with(LOCK_ENDING) {
            // A process of another job may still work on it.
            target.unlock(target.lock(&lock.name, owner, output.wait, control)?);
        }
    }
    remove_groups(target)?;
    let record = Manifest::new(Arc::clone(job), now, Vec::new());
    target.put_new(&work(STARTED), record.to_text()).map(drop)
}

impl BucketGroups {
    /// Lists the states of the groups again, if it was long ago. Returns whether the job has ended: then its groups are no more.
    pub(crate) fn refresh(&self) -> Result<bool> {
        let mut listed = self.listed();
        if listed.due.is_none_or(|due| Instant::now() >= due) {
            let began = Instant::now();
            let folder = work(&format!("{STATE}/{}/", self.job));
            let entries = self.target.entries_in(&folder)?;
            let name = |entry: ListedObject| entry.name.strip_prefix(&folder).map(str::to_owned);
            listed.names = entries.into_iter().filter_map(name).collect();
            listed.is_over = !self.is_underway()?;
            let taken = began.elapsed();
            listed.due = Some(Instant::now() + REFRESH.max(WORK_TO_LIST * taken));
        }
        Ok(listed.is_over)
    }

    /// True if the job that has begun in the bucket is this one.
    fn is_underway(&self) -> Result<bool> {
        Ok(started(&self.target)?.is_some_and(|started| started.job.name() == self.job))
    }

    /// True if a group had finished a step when the states were last listed.
    pub(crate) fn is_done(&self, group: u64, step: &str) -> bool {
        self.listed().names.contains(&record_name(group, step))
    }

    /// Tries to hold a group in a step, so that no other process works on it. `path` is the folder of the groups on the local disk.
    pub(crate) fn hold(&self, group: u64, step: &str, path: &Path) -> Result<Try> {
        let name = format!("{}{LOCK_ENDING}", folder_name(group, step));
        let path = path.join(&name);
        let file = regular::open_to_write(&path).map_err(Error::io(&path))?;
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Ok(Try::Busy),
            Err(fs::TryLockError::Error(error)) => return Err(Error::io(path)(error)),
            Ok(()) => {}
        }
        let Some(lease) = self.target.lease(&self.state(&name), &self.owner, &self.seen)? else {
            return Ok(Try::Busy);
        };
        let held = HeldGroup { lease, _file: file };
        // The record is looked for before the job: where the job has ended, its record is removed first.
        let record = self.state(&record_name(group, step));
        let found = self.target.read(&record);
        let found = found.and_then(|record| Ok((record.is_some(), self.is_underway()?)));
        if let Ok((false, true)) = found {
            return Ok(Try::Held(held));
        }
        self.release(held);
        found.map(|(is_done, _)| if is_done { Try::Done } else { Try::Busy })
    }

    /// Lets other processes work on a group.
    pub(crate) fn release(&self, held: HeldGroup) {
        self.target.unlock(held.lease);
    }

    /// Uploads a group that is packed in the folder `dir`, its record last, and removes it there. A file that a killed process has
    /// uploaded is not uploaded again.
    ///
    /// Fails with [`Error::Busy`] if another process has taken the group.
    pub(crate) fn publish(
        &self,
        held: &HeldGroup,
        (group, step): (u64, &str),
        (dir, job): (&Path, &Identity),
        control: &Control,
    ) -> Result<()> {
        let Some((manifest, report)) = survey::unchanged(dir, job, control)? else {
            return Err(Error::output(dir, "has changed since it was packed; run again"));
        };
        let mut record = GroupUpload::new(manifest, report);
        let wanted = record
            .uploaded()
            .map(|(name, bytes, blake3)| (name, self.file(group, step, name), bytes, blake3));
        let target = &self.target;
        let etags = Mutex::new(BTreeMap::new());
        let upload = |(name, key, bytes, blake3): PlannedUpload<'_>| {
            let hash = || expected(name, blake3);
            let version = if let Some(there) = target.holds(&key, bytes, hash(), control)? {
                there
            } else {
                let path = dir.join(name);
                let proof = prove(&WorkNames, &key).expect("it carries the job");
                target.upload((opened(&path)?, &path), &proof, hash(), control)?
            };
            if let Some(etag) = version.etag() {
                locked(&etags).insert(name.to_owned(), etag.to_owned());
            }
            Ok(())
        };
        with_each((target, &held.lease), wanted, upload, control)?;
        target.check(&held.lease, control)?;
        record.etags = std::mem::take(&mut *locked(&etags));
        let name = self.state(&record_name(group, step));
        target.put_own(&name, sealed::seal(&record), &WorkNames)?;
        self.listed().names.insert(record_name(group, step));
        remove_group(dir);
        Ok(())
    }

    /// The folder in the bucket, the manifest and the report of a group that has finished a step with this identity; `None` if it
    /// has not.
    pub(crate) fn packed(
        &self,
        group: u64,
        step: &str,
        job: &Identity,
    ) -> Result<Option<(PathBuf, Manifest, String)>> {
        let record = self.record(group, step, job)?;
        let dir = PathBuf::from(self.folder(group, step));
        Ok(record.map(|it| (dir, it.manifest, it.report)))
    }

    /// [`packed`](Self::packed); `None` also if a file in the bucket has changed.
    pub(crate) fn unchanged(
        &self,
        (group, step): (u64, &str),
        job: &Identity,
        control: &Control,
    ) -> Result<Option<(PathBuf, Manifest, String)>> {
        let Some(record) = self.record(group, step, job)? else { return Ok(None) };
        let folder = self.folder(group, step);
        let there = self.target.entries_in(&folder)?;
        for (name, bytes, blake3) in record.uploaded() {
            control.tick()?;
            let key = format!("{folder}/{name}");
            let is_as_uploaded = there.iter().any(|it| it.name == key && record.names(name, it));
            let hash = expected(name, blake3);
            if !is_as_uploaded && self.target.holds(&key, bytes, hash, control)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some((PathBuf::from(folder), record.manifest, record.report)))
    }

    /// The error for a file of a group that has changed.
    pub(crate) fn changed(&self, file: &Path) -> Error {
        let reason = "has changed since it was uploaded; remove it, and run again";
        Error::output(self.target.name_of(&file.to_string_lossy()), reason)
    }

    fn record(&self, group: u64, step: &str, job: &Identity) -> Result<Option<GroupUpload>> {
        let text = self.target.read(&self.state(&record_name(group, step)))?;
        Ok(text.and_then(|text| GroupUpload::parse(&text, job)))
    }

    /// Downloads a group that has finished a step into the folder `dir` of the local disk, unless it lies there.
    pub(crate) fn fetch(
        &self,
        (group, step): (u64, &str),
        (dir, job): (&Path, &Identity),
        control: &Control,
    ) -> Result<()> {
        if survey::unchanged(dir, job, control)?.is_some() {
            return Ok(());
        }
        let Some(GroupUpload { manifest, report, .. }) = self.record(group, step, job)? else {
            return Ok(());
        };
        for name in manifest.names().filter(|name| *name != REPORT) {
            self.fetch_file(&self.file(group, step, name), &dir.join(name), control)?;
        }
        place(&dir.join(REPORT), |file| file.write_all(report.as_bytes()).map_err(Error::io(dir)))?;
        place(&dir.join(MANIFEST), |file| {
            file.write_all(manifest.to_text().as_bytes()).map_err(Error::io(dir))
        })
    }

    /// Downloads a file of a group.
    pub(crate) fn fetch_file(&self, name: &str, to: &Path, control: &Control) -> Result<()> {
        place(to, |file| self.target.download(name, file, control))
    }

    /// Forgets that a group has finished a step.
    pub(crate) fn discard(&self, group: u64, step: &str) -> Result<()> {
        self.target.remove_own([self.state(&record_name(group, step))], &WorkNames).map(drop)
    }

    /// Records the error that ended the run of a group.
    pub(crate) fn fail(&self, group: u64, error: &Error) {
        let name = folder_name(group, FAILED);
        let text = sealed::seal(&Failed { error: in_one_line(error.to_string()) });
        // The error itself reaches the caller of this process.
        let _ = self.target.put_own(&self.state(&name), text, &WorkNames);
        self.listed().names.insert(name);
    }

    /// Forgets the error of an earlier run of a group.
    pub(crate) fn forgive(&self, group: u64) {
        let name = folder_name(group, FAILED);
        if self.listed().names.remove(&name) {
            let _ = self.target.remove_own([self.state(&name)], &WorkNames);
        }
    }

    /// Keeps the decisions of the job for other processes.
    pub(crate) fn keep(&self, decided: &impl Serialize) -> Result<()> {
        let text = sealed::seal(decided);
        self.target.put_own(&self.state(DECIDED), text, &WorkNames).map(drop)
    }

    /// The decision that another process has kept; `None` if none has.
    pub(crate) fn kept<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let text = self.target.read(&self.state(DECIDED))?.filter(|text| sealed::is_whole(text));
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Locks the bucket for the process that puts the output together from the groups.
    pub(crate) fn gather(
        &self,
        output: &Output,
        job: &Arc<Identity>,
        control: &Control,
    ) -> Result<Gathering> {
        let guard = guard(&output.dir, &self.target, output.wait, control)?;
        let lease = self.target.lock(LOCK, &self.owner, output.wait, control)?;
        let generation = RunNames::of(job);
        let trial = self.target.refuse_unconditional_copy(&generation.prove(TRIAL));
        match trial.and_then(|()| self.gather_alone(output, job, control)) {
            Ok(Alone::Ready(folder, local, earlier)) => {
                let target = Arc::clone(&self.target);
                let bucket = Bucket::new(target, (lease, generation), local, earlier, guard);
                Ok(Gathering::Ready(folder, bucket))
            }
            other => {
                self.target.unlock(lease);
                match other? {
                    Alone::Finished(report) => Ok(Gathering::Finished(report)),
                    _ => Ok(Gathering::Gone),
                }
            }
        }
    }

    fn gather_alone(
        &self,
        output: &Output,
        job: &Arc<Identity>,
        control: &Control,
    ) -> Result<Alone> {
        let target = &self.target;
        let started = started(target)?.filter(|it| it.job.differences(job).is_none());
        let Some(started) = started else {
            return Ok(finished(target, job)?.map_or(Alone::Gone, Alone::Finished));
        };
        if !output.overwrite
            && let Some(report) = finished(target, job)?
        {
            // A run was killed after it had put the output together.
            remove_groups(target)?;
            return Ok(Alone::Finished(report));
        }
        let earlier = Earlier::find(target, output, job, control)?;
        // It is never resumed: the groups are kept instead.
        let dir = output.dir.with_extension(WHOLE_ENDING);
        let local = Output { dir, cannot_resume: true, ..local(output) };
        match open(&local, job, started.now, control)? {
            Opened::Ready(folder) => Ok(Alone::Ready(folder, local, earlier)),
            Opened::Finished(report) => Ok(Alone::Finished(report)),
        }
    }

    fn listed(&self) -> MutexGuard<'_, ListedStates> {
        locked(&self.listed)
    }

    /// The name of an object of the states of groups.
    fn state(&self, name: &str) -> String {
        work(&format!("{STATE}/{}/{name}", self.job))
    }

    /// The name of the folder of a group.
    fn folder(&self, group: u64, step: &str) -> String {
        work(&format!("{GROUPS}/{}/{}", self.job, folder_name(group, step)))
    }

    fn file(&self, group: u64, step: &str, name: &str) -> String {
        format!("{}/{name}", self.folder(group, step))
    }
}

/// A job in a bucket, after its groups were packed.
#[expect(clippy::large_enum_variant, reason = "there is one a run")]
pub(crate) enum Gathering {
    /// The folder of the local disk in which the output is put together, and the bucket, locked for this process.
    Ready(Folder, Bucket),
    /// Another process has put the output together: the content of its `report.json`.
    Finished(String),
    /// Another process has removed the groups.
    Gone,
}

/// A bucket that one process has for itself, before it puts the output together.
#[expect(clippy::large_enum_variant, reason = "there is one a run")]
enum Alone {
    /// The folder of the local disk.
    Ready(Folder, Output, Earlier),
    Finished(String),
    Gone,
}

/// The name of the record of a group that has finished a step.
fn record_name(group: u64, step: &str) -> String {
    format!("{}.{RECORD}", folder_name(group, step))
}

/// Writes a file of the local disk whole, or not at all. The folder is one of this job's groups, which this process has locked.
fn place(path: &Path, write: impl FnOnce(&mut fs::File) -> Result<()>) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(Error::io(path))?;
    let (new, mut file) = Temporary::beside(path, NEW_ENDING).map_err(Error::io(path))?;
    write(&mut file)?;
    drop(file);
    new.place(path).map_err(Error::io(path))
}
