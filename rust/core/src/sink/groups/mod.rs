//! [`Groups`]: the groups of a job that several processes pack, each group in an output folder of its own.
//!
//! ```text
//! .fastpack/
//! ├── started.json          the job
//! ├── lock                  shared by the processes that pack groups, held alone by the one that gathers them
//! └── groups/
//!     ├── 00000-tokens/     the tokens of a group, where rows have to wait for all groups
//!     ├── 00000-rows/       the rows of a group, packed alone
//!     └── 00001-failed.json the error that ended the last run of a group
//! ```
//!
//! Whoever holds the lock in the folder of a group packs it. The system releases the lock when a process dies,
//! so any process may take the group again, and resumes its files.

pub(super) mod bucket_groups;
pub(super) mod group_files;
pub(super) mod group_states;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDateTime;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::bucket_groups::{BucketGroups, Gathering, HeldGroup, Try};
use self::group_files::{DECIDED, FAILED, FETCHED_ENDING, Failed, folder_name};
use super::bucket::Bucket;
use super::files::{MANIFEST, STARTED, TOKENS, WORK};
use super::folder::discard;
use super::folder::lock::{Lock, SharedLock, refuse_no_folder, taken};
use super::folder::owned;
use super::folder::survey;
use super::folder::{Folder, prepare, tidy};
use super::manifest::{File, Manifest, MetadataFile, TokensFile};
use crate::config::identity::Identity;
use crate::config::{Output, RemoteOutput};
use crate::error::{Error, Result};
use crate::report::listed_path::ListedPath;
use crate::util::control::Control;
use crate::util::disk::hex_hash::HexHash;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::remove_empty;
use crate::util::disk::sealed;
use crate::util::disk::sealed::Sealed;
use crate::util::message::in_one_line;

/// The groups of a job in its work folder. While it exists, no other job takes the folder.
#[derive(Debug)]
pub struct Groups {
    path: PathBuf,
    now: NaiveDateTime,
    lock: SharedLock,
    /// The states of the groups in a bucket, for other processes, if the output is there.
    bucket: Option<BucketGroups>,
}

/// A group that this process works on.
#[derive(Debug)]
pub struct Hold(Option<HeldGroup>);

/// A job of groups, before its groups are packed.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a run")]
pub enum Joined {
    /// The groups can be packed.
    Groups(Groups),
    /// The job has finished here before: the content of its `report.json`.
    Finished(String),
}

/// A job of groups, after its groups were packed.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a run")]
pub enum Started {
    /// The output folder, locked for this process; and the bucket in which it lies, if it lies in one.
    Ready(Folder, Option<Bucket>),
    /// Another process has put the output together: the content of its `report.json`.
    Finished(String),
    /// Another process has removed the groups.
    Gone,
}

/// A group that was packed.
#[derive(Debug)]
pub struct PackedGroup {
    /// Its folder.
    pub dir: PathBuf,
    /// The content of its `report.json`.
    pub report: String,
    /// Its shards.
    pub files: Vec<File>,
    /// A hash of the content of each input, by its path.
    pub content: BTreeMap<ListedPath, HexHash>,
    /// Its tokens, if they are kept.
    pub tokens: Option<TokensFile>,
    /// Its report, and other small files.
    pub beside: Vec<MetadataFile>,
}

impl PackedGroup {
    fn of((dir, manifest, report): (PathBuf, Manifest, String)) -> Self {
        let Manifest { files, content, tokens, beside, .. } = manifest;
        Self { dir, report, files, content, tokens, beside }
    }

    /// True if the file at `path` is the one that is called `name` in the group.
    fn holds(&self, name: &str, path: &Path, control: &Control) -> Result<bool> {
        if let Some(tokens) = self.tokens.as_ref().filter(|_| name == TOKENS) {
            return survey::has_digest(path, tokens, control);
        }
        let shards = self.files.iter().map(|it| (&it.name, it.bytes, &it.blake3));
        let beside = self.beside.iter().map(|it| (&it.name, it.bytes, &it.blake3));
        let listed = shards.chain(beside).find(|(it, ..)| *it == name);
        listed.map_or(Ok(false), |(_, bytes, hash)| owned::is_whole(path, bytes, hash, control))
    }
}

/// Joins the processes that pack the groups of the job with the identity `job`, or begins the job at the time
/// `now`.
///
/// Fails as [`open`](super::open) does.
pub fn join(
    output: &Output,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<Joined> {
    let dir = &output.dir;
    if let Some(remote) = &output.remote {
        return join_in_bucket((output, remote), job, now, control);
    }
    if dir.as_os_str().is_empty() {
        return Err(Error::option("output", "must name a folder"));
    }
    if dir.symlink_metadata().is_ok() && !dir.is_dir() {
        return Err(Error::io(dir)(io::Error::from(ErrorKind::NotADirectory)));
    }
    let again = output.overwrite && !output.shared;
    loop {
        control.tick()?;
        if let Some(groups) = share(output, job, control)? {
            return Ok(Joined::Groups(groups));
        }
        if !again
            && !is_underway(dir)
            && let Some(report) = survey::finished(dir, job)?
        {
            tidy(dir, control);
            return Ok(Joined::Finished(report));
        }
        begin(output, job, now, control)?;
    }
}

/// Joins the processes that pack the groups of a job for a bucket, with a folder of the local disk in which this one packs.
fn join_in_bucket(
    (output, remote): (&Output, &RemoteOutput),
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<Joined> {
    let local = bucket_groups::local(output);
    let (bucket, now) = match bucket_groups::join((output, remote), job, now, control)? {
        bucket_groups::JoinedInBucket::Groups(bucket, now) => (bucket, now),
        bucket_groups::JoinedInBucket::Finished(report) => {
            tidy_all(&local.dir, control);
            return Ok(Joined::Finished(report));
        }
    };
    if let Some(parent) = local.dir.parent() {
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    let joined = join(&local, job, now, control)?;
    Ok(match joined {
        Joined::Groups(groups) => Joined::Groups(Groups { now, bucket: Some(bucket), ..groups }),
        finished @ Joined::Finished(_) => finished,
    })
}

/// Removes a folder of the local disk in which groups were packed for a bucket, unless another process still does so.
fn tidy_all(dir: &Path, control: &Control) {
    tidy(dir, control);
    // This removes the folder only if it is empty.
    let _ = remove_empty(dir);
}

/// The groups of the job, if it has begun.
fn share(output: &Output, job: &Identity, control: &Control) -> Result<Option<Groups>> {
    let dir = &output.dir;
    if started_job(dir)?.is_none() {
        return Ok(None);
    }
    let Some(lock) = SharedLock::take(dir, output.wait, control)? else { return Ok(None) };
    let Some(started) = started_job(dir)?.filter(|it| it.job.differences(job).is_none()) else {
        return Ok(None);
    };
    let path = group_files::folder(&dir.join(WORK));
    let is_there = regular::is_folder(&path);
    Ok(is_there.then_some(Groups { path, now: started.now, lock, bucket: None }))
}

/// The record of the job that has begun in the folder `dir`.
fn started_job(dir: &Path) -> Result<Option<Manifest>> {
    Manifest::read(&dir.join(WORK).join(STARTED), Links::Refused)
}

/// True if the groups of a job are being packed in the folder `dir`. Without the record of the job, the files there are
/// somebody else's.
fn is_underway(dir: &Path) -> bool {
    let work = dir.join(WORK);
    regular::is_folder(&group_files::folder(&work)) && work.join(STARTED).symlink_metadata().is_ok()
}

/// Begins the job, unless another process does so, or has finished it.
fn begin(
    output: &Output,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    control: &Control,
) -> Result<()> {
    let dir = &output.dir;
    let created = dir.symlink_metadata().is_err();
    refuse_no_folder(dir)?;
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let (lock, waited) = Lock::take(dir, None, output.wait, control)?;
    let is_same = |it: &Manifest| it.job.differences(job).is_none();
    let has_begun = is_underway(dir) && started_job(dir)?.as_ref().is_some_and(is_same);
    let finished =
        (waited || !output.overwrite) && !is_underway(dir) && survey::finished(dir, job)?.is_some();
    if has_begun || finished {
        return Ok(());
    }
    let folder = prepare(output, job, now, (lock, created), control)?;
    let groups = group_files::folder(&dir.join(WORK));
    match fs::create_dir(&groups) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Error::io(groups)(error)),
        _ => {
            drop(folder);
            Ok(())
        }
    }
}

/// Locks the output folder of the job for the process that puts the output together from the groups.
fn gather_in_folder(output: &Output, job: &Arc<Identity>, control: &Control) -> Result<Started> {
    let dir = &output.dir;
    let (lock, _) = Lock::take(dir, None, output.wait, control)?;
    let finished = survey::finished(dir, job)?;
    let is_same = |it: &Manifest| it.job.differences(job).is_none();
    // It names every input: its memory is freed before that of another is needed.
    let started = started_job(dir)?.filter(is_same).map(|it| it.now);
    let Some(now) = started.filter(|_| is_underway(dir)) else {
        return Ok(finished.map_or(Started::Gone, Started::Finished));
    };
    if let Some(report) = finished.filter(|_| !output.overwrite) {
        // A run was killed after it had put the output together.
        group_files::remove(lock.work());
        lock.clear(job, |_| false)?;
        return Ok(Started::Finished(report));
    }
    let folder = prepare(output, job, now, (lock, false), control)?;
    Ok(Started::Ready(folder, None))
}

impl Groups {
    /// The time of day that templates see: the start of the first run of the job.
    pub fn now(&self) -> NaiveDateTime {
        self.now
    }

    /// The same groups, which this process no longer keeps others from removing.
    #[must_use]
    pub fn released(self) -> Self {
        Self { lock: self.lock.released(), ..self }
    }

    /// True if locks tell which groups are being packed.
    pub fn has_locks(&self) -> bool {
        self.lock.is_held
    }

    /// The output folder of a group in a step.
    pub fn folder(&self, group: u64, step: &str) -> PathBuf {
        self.path.join(folder_name(group, step))
    }

    /// Looks again which groups are packed, where others tell it in a bucket. Returns whether the job has ended meanwhile.
    pub fn refresh(&self) -> Result<bool> {
        self.bucket.as_ref().map_or(Ok(false), BucketGroups::refresh)
    }

    /// True if a group has finished a step.
    pub fn is_done(&self, group: u64, step: &str) -> bool {
        match &self.bucket {
            Some(bucket) => bucket.is_done(group, step),
            None => self.folder(group, step).join(MANIFEST).symlink_metadata().is_ok(),
        }
    }

    /// Keeps other processes from working on a group; `None` if it has finished the step. In a folder, the lock of the group's own
    /// folder does so.
    ///
    /// Fails with [`Error::Busy`] if another process works on it.
    pub fn hold(&self, group: u64, step: &str) -> Result<Option<Hold>> {
        let Some(bucket) = &self.bucket else { return Ok(Some(Hold(None))) };
        match bucket.hold(group, step, &self.path)? {
            Try::Held(held) => Ok(Some(Hold(Some(held)))),
            Try::Done => Ok(None),
            Try::Busy => Err(taken(&self.folder(group, step))),
        }
    }

    /// Gives a group that is packed to all processes.
    ///
    /// Fails with [`Error::Busy`] if another process has taken it meanwhile.
    pub fn publish(
        &self,
        hold: &Hold,
        (group, step): (u64, &str),
        job: &Identity,
        control: &Control,
    ) -> Result<()> {
        let (Some(bucket), Some(it)) = (&self.bucket, &hold.0) else { return Ok(()) };
        let dir = self.folder(group, step);
        bucket.publish(it, (group, step), (&dir, job), control)
    }

    /// Lets other processes work on a group.
    pub fn release(&self, hold: Hold) {
        if let (Some(bucket), Some(it)) = (&self.bucket, hold.0) {
            bucket.release(it);
        }
    }

    /// A group that has finished a step with this identity; `None` if it has not, or if a file is not as long as it was, or a small
    /// one has changed. Its folder is one of the bucket, if the output is in one.
    pub fn packed(&self, group: u64, step: &str, job: &Identity) -> Result<Option<PackedGroup>> {
        if let Some(bucket) = &self.bucket {
            return Ok(bucket.packed(group, step, job)?.map(PackedGroup::of));
        }
        let dir = self.folder(group, step);
        let whole = survey::whole(&dir, job)?;
        Ok(whole.map(|(manifest, report)| PackedGroup::of((dir, manifest, report))))
    }

    /// [`packed`](Self::packed); `None` also if any byte of a file has changed.
    pub fn unchanged(
        &self,
        group: u64,
        step: &str,
        job: &Identity,
        control: &Control,
    ) -> Result<Option<PackedGroup>> {
        match &self.bucket {
            Some(bucket) => Ok(bucket.unchanged((group, step), job, control)?.map(PackedGroup::of)),
            None => unchanged(self.folder(group, step), job, control),
        }
    }

    /// [`unchanged`](Self::unchanged), with all files in a folder of the local disk.
    pub fn fetched(
        &self,
        (group, step): (u64, &str),
        job: &Identity,
        control: &Control,
    ) -> Result<Option<PackedGroup>> {
        let dir = self.folder(group, step);
        if let Some(bucket) = &self.bucket {
            bucket.fetch((group, step), (&dir, job), control)?;
        }
        unchanged(dir, job, control)
    }

    /// The path on the local disk of a file in the folder of a packed group; fails with [`Error::Output`] if a file of a bucket has
    /// changed.
    pub fn fetched_file(&self, it: &PackedGroup, name: &str, control: &Control) -> Result<PathBuf> {
        let file = it.dir.join(name);
        let Some(bucket) = &self.bucket else { return Ok(file) };
        let names: Vec<_> = file.iter().map(OsStr::to_string_lossy).collect();
        let flat = names[names.len().saturating_sub(2)..].join("-");
        // Others that use the folder may fetch it too.
        let path = regular::own(&self.path.join(flat), FETCHED_ENDING);
        bucket.fetch_file(&file.to_string_lossy(), &path, control)?;
        if it.holds(name, &path, control)? { Ok(path) } else { Err(bucket.changed(&file)) }
    }

    /// Removes the files of a group that [`fetched`](Self::fetched) has downloaded.
    pub fn forget(&self, group: u64, step: &str) {
        if self.bucket.is_some() {
            group_files::remove_group(&self.folder(group, step));
        }
    }

    /// True if the files of groups lie in a bucket.
    pub fn are_in_bucket(&self) -> bool {
        self.bucket.is_some()
    }

    /// Removes the tokens that a group has made in a step, if they have changed since.
    pub fn discard_tokens(
        &self,
        (group, step): (u64, &str),
        job: &Identity,
        control: &Control,
    ) -> Result<()> {
        discard::discard(&self.folder(group, step), job, control)?;
        self.bucket.as_ref().map_or(Ok(()), |bucket| bucket.discard(group, step))
    }

    /// Removes the files that a group has made in a step, because the group has changed since. Only the process
    /// that has the output folder for itself may do so.
    pub fn discard(&self, group: u64, step: &str) -> Result<()> {
        group_files::remove_group(&self.folder(group, step));
        self.bucket.as_ref().map_or(Ok(()), |bucket| bucket.discard(group, step))
    }

    /// Records the error that ended the run of a group.
    pub fn fail(&self, group: u64, error: &Error) {
        if let Some(bucket) = &self.bucket {
            return bucket.fail(group, error);
        }
        let text = sealed::seal(&Failed { error: in_one_line(error.to_string()) });
        let path = self.path.join(folder_name(group, FAILED));
        // The error itself reaches the caller of this process.
        let _ = group_files::put(&path, text.as_bytes());
    }

    /// Keeps the decisions of the job for other processes.
    pub fn keep(&self, decided: &impl Serialize) -> Result<()> {
        if let Some(bucket) = &self.bucket {
            return bucket.keep(decided);
        }
        let path = self.path.join(DECIDED);
        group_files::put(&path, sealed::seal(decided).as_bytes()).map_err(Error::io(path))
    }

    /// The decision that another process has kept; `None` if none has.
    pub fn kept<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        if let Some(bucket) = &self.bucket {
            return bucket.kept();
        }
        let path = self.path.join(DECIDED);
        match sealed::read(&path, Links::Refused).map_err(Error::io(path))? {
            Sealed::Whole(text) => Ok(serde_json::from_slice(&text).ok()),
            Sealed::Missing | Sealed::Other => Ok(None),
        }
    }

    /// Forgets the error of an earlier run of a group.
    pub fn forgive(&self, group: u64) {
        match &self.bucket {
            Some(bucket) => bucket.forgive(group),
            None => group_files::remove_own(&self.path.join(folder_name(group, FAILED))),
        }
    }

    /// Locks the output of the job for this process, which puts it together from the groups.
    ///
    /// Waits until no other process uses the folder if the output says so, and fails with [`Error::Busy`] otherwise.
    pub fn gather(
        &self,
        output: &Output,
        job: &Arc<Identity>,
        control: &Control,
    ) -> Result<Started> {
        match &self.bucket {
            Some(bucket) => Ok(match bucket.gather(output, job, control)? {
                Gathering::Ready(folder, bucket) => Started::Ready(folder, Some(bucket)),
                Gathering::Finished(report) => Started::Finished(report),
                Gathering::Gone => Started::Gone,
            }),
            None => gather_in_folder(output, job, control),
        }
    }

    /// Removes the folder on the local disk in which this process packed for a bucket, unless another process still works there.
    pub fn tidy(self, control: &Control) {
        if self.bucket.is_none() {
            return;
        }
        let dir = self.path.ancestors().nth(2).map(Path::to_owned);
        drop(self);
        if let Some(dir) = dir {
            tidy_all(&dir, control);
        }
    }
}

/// A group that has finished a step with this identity, in the folder `dir`; `None` if it has not, or a file has
/// changed.
fn unchanged(dir: PathBuf, job: &Identity, control: &Control) -> Result<Option<PackedGroup>> {
    let unchanged = survey::unchanged(&dir, job, control)?;
    Ok(unchanged.map(|(manifest, report)| PackedGroup::of((dir, manifest, report))))
}
