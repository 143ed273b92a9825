//! [`JobStore`]: the place of the output of a job, a folder of the disk or of a bucket.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDateTime;

use super::coordination_files::{HeldLock, RecordStore};
use crate::config::Output;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::folder::OutputFolder;
use crate::sink::groups::packed_group::PackedGroup;
use crate::sink::manifest::{Manifest, SizedFile, WrittenShard};
use crate::util::control::Control;

/// The place of the output of a job, and of its groups until they are put together.
pub(crate) trait JobStore: fmt::Debug + Send + Sync {
    fn output(&self) -> &Output;

    fn job(&self) -> &Arc<Identity>;

    /// The records of the groups.
    fn records(&self) -> &dyn RecordStore;

    /// The record of the job whose groups are packed here; `None` if there is none.
    fn started(&self) -> Result<Option<Manifest>>;

    /// True if the groups of this job are packed here.
    fn is_underway(&self) -> Result<bool>;

    /// The content of the `report.json` of this job, if all of its files are here.
    fn finished(&self) -> Result<Option<String>>;

    /// Removes the leftovers of a run that was killed after it had finished this job.
    fn tidy(&self, control: &Control) -> Result<()>;

    /// Keeps other jobs away while this process packs groups. Returns false if the job has ended meanwhile.
    fn share(&mut self, now: NaiveDateTime, control: &Control) -> Result<bool>;

    /// No longer keeps other jobs away.
    fn release(&mut self);

    /// True if locks tell which groups are being packed.
    fn has_locks(&self) -> bool;

    /// Locks the whole output for this process.
    ///
    /// Waits for others if the output says so, and fails with [`Error::Busy`] otherwise.
    fn alone(&self, control: &Control) -> Result<Box<dyn LockedStore + '_>>;

    /// Takes the lock of a group; `None` if another process holds it.
    fn hold(&self, lock: &str) -> Result<Option<Box<dyn HeldLock>>>;

    /// The folder of the local disk in which a group is packed.
    fn folder(&self, group: &str) -> PathBuf;

    /// The folder in the store of a packed group.
    fn place(&self, group: &str) -> PathBuf;

    /// Brings a file of a packed group to the store. Returns the etag that it got there, if any.
    fn keep(&self, group: &str, file: SizedFile<'_>, control: &Control) -> Result<Option<String>>;

    /// True if the files of a packed group are there as its record says; with `hashed`, byte by byte.
    fn holds(&self, it: &PackedGroup, hashed: bool, control: &Control) -> Result<bool>;

    /// Brings the files of a packed group to its folder of the local disk.
    fn fetch(&self, it: &PackedGroup, control: &Control) -> Result<()>;

    /// Brings a file of a packed group to the local disk. Returns its path there.
    fn fetch_file(&self, it: &PackedGroup, name: &str, control: &Control) -> Result<PathBuf>;

    /// Removes the folder of the local disk of a group whose files are elsewhere.
    fn forget(&self, group: &str);

    /// Gives shards of groups to the output, by their paths in the store.
    fn adopt(
        &self,
        to: &mut OutputFolder,
        shards: &[(PathBuf, WrittenShard)],
        control: &Control,
    ) -> Result<()>;

    /// Removes the folder of the local disk in which this process has packed groups, unless it is the output itself, or another process
    /// still works there.
    fn end(self: Box<Self>, control: &Control);
}

/// A [`JobStore`] that this process has for itself.
pub(crate) trait LockedStore {
    /// True if it waited for another run, which has ended since.
    fn waited(&self) -> bool;

    /// Removes what another job has left, and begins the groups of this one at the time `now`.
    ///
    /// Fails with [`Error::Output`] if it would replace what must not be replaced.
    fn begin(self: Box<Self>, now: NaiveDateTime, control: &Control) -> Result<()>;

    /// Removes the groups and all else that the finished output needs no more.
    fn remove_work(&self) -> Result<()>;

    /// Opens the output of the job, which begins at the time `now` unless it has begun before. The lock is held until it is closed.
    fn open(
        self: Box<Self>,
        now: NaiveDateTime,
        control: &Control,
    ) -> Result<OpenedJob<OpenOutput>>;
}

/// A job whose output was asked for.
#[derive(Debug)]
pub enum OpenedJob<T> {
    /// It is ready for this process.
    Ready(T),
    /// The `report.json` of the same job, which has finished here before.
    Finished(String),
}

/// An output that only this process writes to.
#[derive(Debug)]
pub struct OpenOutput {
    /// Its folder on the local disk.
    pub folder: OutputFolder,
    pub(crate) place: Box<dyn Placement>,
}

impl OpenOutput {
    /// Brings the folder to its place after [`OutputFolder::finish`], and releases the output.
    pub fn finish(self, control: &Control) -> Result<()> {
        let uploaded_names = self.folder.in_bucket();
        drop(self.folder);
        self.place.finish(&uploaded_names, control)
    }

    /// Releases the output after the job has failed.
    pub fn fail(mut self, error: &Error) {
        self.folder.fail(error);
        drop(self.folder);
        self.place.give_up(error);
    }
}

/// The place of an output whose folder of the local disk is finished.
pub(crate) trait Placement: fmt::Debug {
    /// Brings the folder there. Files that lie elsewhere in the store are named in `elsewhere`, by their names in the folder.
    fn finish(
        self: Box<Self>,
        uploaded_names: &HashMap<String, String>,
        control: &Control,
    ) -> Result<()>;

    /// Removes what no later run can use.
    fn give_up(self: Box<Self>, error: &Error);
}
