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
//! so any process may take the group again, and resumes what is there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDateTime;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::{MANIFEST, STARTED, WORK};
use super::folder::{Folder, prepare, tidy};
use super::group_files::{self, DECIDED, FAILED, Failed, folder_name};
use super::leftovers::is_ours;
use super::lock::{Lock, SharedLock, refuse_no_folder};
use super::manifest::{File, Manifest, TokensFile};
use super::placed::write;
use super::survey;
use crate::config::Output;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::message::in_one_line;
use crate::regular::{self, Links};
use crate::sealed::{self, Sealed};

/// The groups of a job in its work folder. While it exists, no other job takes the folder.
#[derive(Debug)]
pub struct Groups {
    path: PathBuf,
    now: NaiveDateTime,
    lock: SharedLock,
}

/// A job of groups, before its groups are packed.
#[derive(Debug)]
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
    /// The output folder, locked for this process.
    Ready(Folder),
    /// Another process has put the output together: the content of its `report.json`.
    Finished(String),
    /// Another process has removed the groups.
    Gone,
}

/// A group that was packed.
#[derive(Debug)]
pub struct Packed {
    /// Its folder.
    pub dir: PathBuf,
    /// The content of its `report.json`.
    pub report: String,
    /// Its shards.
    pub files: Vec<File>,
    /// A hash of the content of each input, by its path.
    pub content: BTreeMap<String, String>,
    /// Its tokens, if they are kept.
    pub tokens: Option<TokensFile>,
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
    Ok(regular::is_folder(&path).then_some(Groups { path, now: started.now, lock }))
}

/// The record of the job that has begun in the folder `dir`.
fn started_job(dir: &Path) -> Result<Option<Manifest>> {
    Manifest::read(&dir.join(WORK).join(STARTED), Links::Refused)
}

/// Whether the groups of a job are being packed in the folder `dir`.
fn is_underway(dir: &Path) -> bool {
    regular::is_folder(&group_files::folder(&dir.join(WORK)))
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
///
/// Waits until no other process uses the folder if the output says so, and fails with [`Error::Busy`] otherwise.
pub fn gather(output: &Output, job: &Arc<Identity>, control: &Control) -> Result<Started> {
    let dir = &output.dir;
    let (lock, _) = Lock::take(dir, None, output.wait, control)?;
    let finished = survey::finished(dir, job)?;
    let is_same = |it: &Manifest| it.job.differences(job).is_none();
    let Some(started) = started_job(dir)?.filter(is_same).filter(|_| is_underway(dir)) else {
        return Ok(finished.map_or(Started::Gone, Started::Finished));
    };
    if let Some(report) = finished.filter(|_| !output.overwrite) {
        // A run was killed after it had put the output together.
        group_files::remove(lock.work());
        lock.clear(|name| !is_ours(name, job))?;
        return Ok(Started::Finished(report));
    }
    prepare(output, job, started.now, (lock, false), control).map(Started::Ready)
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

    /// Whether locks tell which groups are being packed.
    pub fn has_locks(&self) -> bool {
        self.lock.is_held
    }

    /// The output folder of a group in a step.
    pub fn folder(&self, group: u64, step: &str) -> PathBuf {
        self.path.join(folder_name(group, step))
    }

    /// Whether a group has finished a step.
    pub fn is_done(&self, group: u64, step: &str) -> bool {
        self.folder(group, step).join(MANIFEST).symlink_metadata().is_ok()
    }

    /// Removes what a group has made in a step, because it has changed since. Only the process that has the output
    /// folder for itself may do so.
    pub fn discard(&self, group: u64, step: &str) {
        group_files::remove_group(&self.folder(group, step));
    }

    /// Records the error that ended the run of a group.
    pub fn fail(&self, group: u64, error: &Error) {
        let text = sealed::seal(&Failed { error: in_one_line(error.to_string()) });
        let path = self.path.join(folder_name(group, FAILED));
        // The error itself reaches the caller of this process.
        let _ = fs::remove_file(&path);
        let _ = write(&path, text);
    }

    /// Keeps what all groups have decided together, for other processes.
    pub fn keep(&self, decided: &impl Serialize) -> Result<()> {
        let own = self.path.join(format!("{DECIDED}.{}", std::process::id()));
        let _ = fs::remove_file(&own);
        write(&own, sealed::seal(decided))?;
        let path = self.path.join(DECIDED);
        fs::rename(&own, &path).map_err(Error::io(path))
    }

    /// The decision that another process has kept; `None` if none has.
    pub fn kept<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let path = self.path.join(DECIDED);
        match sealed::read(&path, Links::Refused).map_err(Error::io(path))? {
            Sealed::Whole(text) => Ok(serde_json::from_slice(&text).ok()),
            Sealed::Missing | Sealed::Other => Ok(None),
        }
    }

    /// Forgets the error of an earlier run of a group.
    pub fn forgive(&self, group: u64) {
        let _ = fs::remove_file(self.path.join(folder_name(group, FAILED)));
    }
}

/// A group that has finished a step with this identity, in the folder `dir`; `None` if it has not, or a file has
/// changed.
pub fn packed(dir: PathBuf, job: &Identity) -> Result<Option<Packed>> {
    let Some((manifest, report)) = survey::whole(&dir, job)? else { return Ok(None) };
    let Manifest { files, content, tokens, .. } = manifest;
    Ok(Some(Packed { dir, report, files, content, tokens }))
}
