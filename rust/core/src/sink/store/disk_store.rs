//! [`DiskStore`]: the groups of a job in the work folder of its output folder, with locks of the file system.

use std::collections::HashMap;
use std::fs::{self, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDateTime;

use super::coordination_files::{HeldLock, ListedRecord, RecordStore};
use super::job_store::{JobStore, LockedStore, OpenOutput, OpenedJob, Placement};
use crate::config::Output;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::file_names::{STARTED, WORK};
use crate::sink::folder::lock::{Lock, SharedLock, is_locked, is_taken, refuse_no_folder};
use crate::sink::folder::{OutputFolder, output_survey, prepare, tidy};
use crate::sink::groups::group_files;
use crate::sink::groups::packed_group::PackedGroup;
use crate::sink::manifest::{Manifest, SizedFile, WrittenShard};
use crate::sink::work_names::foreign;
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular::{self, Links};
use crate::util::disk::sealed::{self, Sealed};

/// The records of groups in the folder of the groups.
#[derive(Debug)]
pub(crate) struct DiskRecords {
    groups: PathBuf,
}

impl DiskRecords {
    fn of(dir: &Path) -> Self {
        Self { groups: group_files::folder(&dir.join(WORK)) }
    }

    /// The job that has begun in the folder `dir` and is not finished, with or without groups, and its records.
    pub(crate) fn find(dir: &Path) -> Result<Option<(Manifest, Self)>> {
        fs::metadata(dir).map_err(Error::io(dir))?;
        let path = dir.join(WORK).join(STARTED);
        // It may have come to lie there since, and is read again.
        for _ in 0..2 {
            if let Some(started) = Manifest::read(&path, Links::Refused)? {
                return Ok(Some((started, Self::of(dir))));
            }
            if path.symlink_metadata().is_err() {
                return Ok(None);
            }
        }
        Err(foreign(dir, STARTED))
    }
}

impl RecordStore for DiskRecords {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.groups.join(name);
        Ok(match sealed::read(&path, Links::Refused).map_err(Error::io(path))? {
            Sealed::Whole(text) => Some(text),
            Sealed::Missing | Sealed::Other => None,
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.groups.join(name);
        group_files::write_file(&path, text.as_bytes()).map_err(Error::io(path))
    }

    fn remove(&self, name: &str) -> Result<()> {
        group_files::remove_own(&self.groups.join(name));
        Ok(())
    }

    fn list(&self) -> Result<Vec<ListedRecord>> {
        let entries = match fs::read_dir(&self.groups) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io(&*self.groups))?,
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            let name = entry.map_err(Error::io(&*self.groups))?.file_name();
            Ok(ListedRecord { name: name.to_string_lossy().into_owned(), written: 0 })
        };
        entries.map(name).collect()
    }

    fn is_held(&self, lock: &ListedRecord) -> bool {
        is_locked(&self.groups.join(&lock.name))
    }

    fn is_locked(&self) -> Result<bool> {
        Ok(self.groups.parent().is_some_and(is_taken))
    }
}

/// The output folder of a job, whose groups are packed in its work folder.
#[derive(Debug)]
pub(crate) struct DiskStore {
    output: Output,
    job: Arc<Identity>,
    records: DiskRecords,
    /// Keeps other jobs away while it is there.
    lock: Option<SharedLock>,
    has_locks: bool,
}

impl DiskStore {
    pub(crate) fn open(output: Output, job: &Arc<Identity>) -> Result<Self> {
        let dir = &output.dir;
        if dir.as_os_str().is_empty() {
            return Err(Error::option("output", "must name a folder"));
        }
        if dir.symlink_metadata().is_ok() && !dir.is_dir() {
            return Err(Error::io(dir)(io::Error::from(ErrorKind::NotADirectory)));
        }
        let records = DiskRecords::of(dir);
        Ok(Self { output, job: Arc::clone(job), records, lock: None, has_locks: true })
    }

    fn record(&self) -> PathBuf {
        self.output.dir.join(WORK).join(STARTED)
    }

    /// True if there are groups. They are removed in one step, before the record of their job.
    fn has_groups(&self) -> bool {
        regular::is_folder(&self.records.groups)
    }
}

impl JobStore for DiskStore {
    fn output(&self) -> &Output {
        &self.output
    }

    fn job(&self) -> &Arc<Identity> {
        &self.job
    }

    fn records(&self) -> &dyn RecordStore {
        &self.records
    }

    fn started(&self) -> Result<Option<Manifest>> {
        if self.has_groups() { Manifest::read(&self.record(), Links::Refused) } else { Ok(None) }
    }

    /// The shared lock, or that of the whole folder, keeps others from changing `started.json`.
    fn is_underway(&self) -> Result<bool> {
        Ok(self.has_groups() && self.record().symlink_metadata().is_ok())
    }

    fn finished(&self) -> Result<Option<String>> {
        output_survey::finished(&self.output.dir, &self.job)
    }

    fn tidy(&self, control: &Control) -> Result<()> {
        tidy(&self.output.dir, control);
        Ok(())
    }

    fn share(&mut self, _: NaiveDateTime, control: &Control) -> Result<bool> {
        let (dir, wait) = (&self.output.dir, self.output.wait);
        let Some(lock) = SharedLock::take(dir, wait, control)? else { return Ok(false) };
        // Another job may have begun before the folder was locked.
        let started = self.started()?;
        let is_same = started.is_some_and(|it| it.job.differences(&self.job).is_none());
        self.has_locks = lock.is_held;
        self.lock = is_same.then_some(lock);
        Ok(is_same)
    }

    fn release(&mut self) {
        self.lock = None;
    }

    fn has_locks(&self) -> bool {
        self.has_locks
    }

    fn alone(&self, control: &Control) -> Result<Box<dyn LockedStore + '_>> {
        let (dir, name) = (&self.output.dir, self.job.name());
        let created = dir.symlink_metadata().is_err();
        refuse_no_folder(dir)?;
        fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let job_name = (!self.output.cannot_resume).then_some(&*name);
        let (lock, waited) = Lock::take(dir, job_name, self.output.wait, control)?;
        Ok(Box::new(LockedDisk { store: self, lock, created, waited }))
    }

    fn hold(&self, lock: &str) -> Result<Option<Box<dyn HeldLock>>> {
        let path = self.records.groups.join(lock);
        let file = FileLock::from(regular::open_to_write(&path).map_err(Error::io(&path))?);
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Without locks, a process keeps to the groups of its turn.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                Ok(Some(Box::new(file)))
            }
            Err(TryLockError::Error(error)) => Err(Error::io(path)(error)),
        }
    }

    fn folder(&self, group: &str) -> PathBuf {
        self.records.groups.join(group)
    }

    fn place(&self, group: &str) -> PathBuf {
        self.folder(group)
    }

    /// The file lies there already.
    fn keep(&self, _: &str, _: SizedFile<'_>, control: &Control) -> Result<Option<String>> {
        control.tick().map(|()| None)
    }

    fn holds(&self, it: &PackedGroup, hashed: bool, control: &Control) -> Result<bool> {
        output_survey::holds_files(&it.dir, &it.manifest, hashed, control)
    }

    /// The files lie there already.
    fn fetch(&self, _: &PackedGroup, control: &Control) -> Result<()> {
        control.tick()
    }

    fn fetch_file(&self, it: &PackedGroup, name: &str, control: &Control) -> Result<PathBuf> {
        control.tick().map(|()| it.dir.join(name))
    }

    fn forget(&self, _: &str) {}

    fn adopt(
        &self,
        to: &mut OutputFolder,
        shards: &[(PathBuf, WrittenShard)],
        control: &Control,
    ) -> Result<()> {
        to.adopt(shards, control)
    }

    fn end(self: Box<Self>, _: &Control) {}
}

/// An output folder that this process has locked.
struct LockedDisk<'a> {
    store: &'a DiskStore,
    lock: Lock,
    /// True if this process made the folder.
    created: bool,
    waited: bool,
}

impl LockedDisk<'_> {
    fn prepare(self, now: NaiveDateTime, control: &Control) -> Result<OutputFolder> {
        let DiskStore { output, job, .. } = self.store;
        prepare(output, job, now, self.lock, self.created, control)
    }
}

impl LockedStore for LockedDisk<'_> {
    fn waited(&self) -> bool {
        self.waited
    }

    fn begin(self: Box<Self>, now: NaiveDateTime, control: &Control) -> Result<()> {
        let groups = &self.store.records.groups;
        let _folder = self.prepare(now, control)?;
        match fs::create_dir(groups) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Error::io(groups)(error)),
            _ => Ok(()),
        }
    }

    fn remove_work(&self) -> Result<()> {
        group_files::remove(self.lock.work());
        self.lock.clear(&self.store.job, |_| false)
    }

    fn open(
        self: Box<Self>,
        now: NaiveDateTime,
        control: &Control,
    ) -> Result<OpenedJob<OpenOutput>> {
        let folder = self.prepare(now, control)?;
        Ok(OpenedJob::Ready(OpenOutput { folder, place: Box::new(InPlace) }))
    }
}

/// The place of an output whose folder of the local disk is the output itself.
#[derive(Debug)]
struct InPlace;

impl Placement for InPlace {
    fn finish(self: Box<Self>, _: &HashMap<String, String>, _: &Control) -> Result<()> {
        Ok(())
    }

    fn give_up(self: Box<Self>, _: &Error) {}
}
