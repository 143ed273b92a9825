//! [`BucketStore`]: the groups of a job in a bucket, with leases.
//!
//! ```text
//! packed/.fastpack/
//! ├── lock                       held by the process that begins the job, or puts the output together
//! ├── started.json               the job
//! ├── groups/JOB/00000-rows/     the files of a packed group
//! └── state/JOB/00000-rows.json  the records and locks of groups
//! ```
//!
//! Each process packs a group on its local disk, in a [`DiskStore`] of its own. The folders of groups are named after their job, so
//! that a process that has not yet heard of its end writes nowhere that another job reads.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDateTime;

use super::coordination_files::{HeldLock, ListedRecord, RecordStore};
use super::disk_store::DiskStore;
use super::job_states;
use super::job_store::{JobStore, LockedStore, OpenOutput, OpenedJob, Placement};
use crate::config::identity::Identity;
use crate::config::{Output, RemoteOutput};
use crate::error::{Error, Result};
use crate::sink::bucket::lease_guard::LeaseGuard;
use crate::sink::bucket::replaced_outputs::ReplacedOutputs;
use crate::sink::bucket::run_names::{
    RunNames, STATE, WorkNames, end_unfinished_uploads, remove_groups, started, work,
};
use crate::sink::bucket::uploads::opened;
use crate::sink::bucket::{
    self, OutputBucket, TRIAL, finished, guard, owner, remove_finished, remove_work,
};
use crate::sink::file_names::{GROUPS, MANIFEST, REPORT, STARTED};
use crate::sink::folder::{OutputFolder, tidy};
use crate::sink::groups::group_files::{
    FETCHED_ENDING, GroupFiles, LOCK_ENDING, ListedInGroup, NEW_ENDING, remove_group,
};
use crate::sink::groups::packed_group::PackedGroup;
use crate::sink::manifest::{Manifest, SizedFile, WrittenShard, expected};
use crate::storage::{BucketFolder, FileToUpload, LOCK, SeenLocks};
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular;
use crate::util::disk::removal::{Disk, Evidence, Temporary, prove, remove_empty};
use crate::util::disk::sealed;

/// The ending of the folder of the local disk in which groups are packed.
const PACKED_ENDING: &str = "groups";

/// The ending of the folder of the local disk in which the output is put together.
const WHOLE_ENDING: &str = "whole";

/// The records of the groups of a job in a bucket.
#[derive(Debug)]
pub(crate) struct BucketRecords {
    target: Arc<BucketFolder>,
    /// The name of their folder.
    folder: String,
}

impl BucketRecords {
    fn of(target: &Arc<BucketFolder>, job: &Identity) -> Self {
        let folder = work(&format!("{STATE}/{}/", job.name()));
        Self { target: Arc::clone(target), folder }
    }

    /// The job whose groups are packed in a bucket, and its records.
    pub(crate) fn find(target: &Arc<BucketFolder>) -> Result<Option<(Manifest, Self)>> {
        let started = started(target)?;
        Ok(started.map(|started| {
            let records = Self::of(target, &started.job);
            (started, records)
        }))
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }
}

impl RecordStore for BucketRecords {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let text = self.target.read(&self.key(name))?;
        Ok(text.filter(|text| sealed::is_whole(text)).map(Vec::from))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        self.target.write_own(&self.key(name), text.to_owned(), &WorkNames)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.target.remove_own([self.key(name)], &WorkNames).map(drop)
    }

    fn list(&self) -> Result<Vec<ListedRecord>> {
        let entries = self.target.entries_in(&self.folder)?.into_iter();
        let listed = entries.filter_map(|entry| {
            let name = entry.name.strip_prefix(&self.folder)?.to_owned();
            Some(ListedRecord { name, written: entry.modified })
        });
        Ok(listed.collect())
    }

    fn is_held(&self, lock: &ListedRecord) -> bool {
        self.target.is_held(lock.written)
    }

    fn is_locked(&self) -> Result<bool> {
        let entries = self.target.entries_in(&work(""))?;
        Ok(entries.iter().any(|it| it.name == LOCK && self.target.is_held(it.modified)))
    }
}

/// An output folder in a bucket, and the folder of the local disk in which this process packs groups for it.
#[derive(Debug)]
pub(crate) struct BucketStore {
    target: Arc<BucketFolder>,
    output: Output,
    job: Arc<Identity>,
    records: BucketRecords,
    owner: String,
    seen: SeenLocks,
    local: DiskStore,
}

impl BucketStore {
    pub(crate) fn open(
        output: &Output,
        remote: &RemoteOutput,
        job: &Arc<Identity>,
        control: &Control,
    ) -> Result<Self> {
        let target = Arc::new(BucketFolder::open(&remote.url, &remote.storage, control.flag())?);
        Ok(Self {
            records: BucketRecords::of(&target, job),
            target,
            output: output.clone(),
            job: Arc::clone(job),
            owner: owner(&output.dir),
            seen: SeenLocks::default(),
            local: DiskStore::open(local(output, output.dir.with_extension(PACKED_ENDING)), job)?,
        })
    }

    /// Removes what the bucket has of other jobs, and records this one. The bucket is locked.
    fn replace_outputs(&self, now: NaiveDateTime, control: &Control) -> Result<()> {
        let Self { target, output, job, owner, .. } = self;
        ReplacedOutputs::find(target, output, job, control)?;
        for lock in target.entries_in(&work(STATE))? {
            if lock.name.ends_with(LOCK_ENDING) {
                // A process of another job may still work on it.
                target.unlock(target.lock(&lock.name, owner, output.wait, control)?);
            }
        }
        remove_groups(target)?;
        let record = Manifest::new(Arc::clone(job), now, Vec::new());
        target.write_new(&work(STARTED), record.to_text())
    }

    /// The folder of the local disk in which the output is made.
    fn build_dir(&self) -> PathBuf {
        let dir = &self.output.dir;
        if self.job.is_grouped() { dir.with_extension(WHOLE_ENDING) } else { dir.clone() }
    }
}

/// The output in the folder `dir` of the local disk.
fn local(output: &Output, dir: PathBuf) -> Output {
    Output { dir, remote: None, overwrite: true, shared: true, wait: true, ..output.clone() }
}

/// Removes a folder of the local disk in which groups were packed, unless another process still does so.
fn remove_local(dir: &Path, control: &Control) {
    tidy(dir, control);
    // This removes the folder only if it is empty.
    let _ = remove_empty(dir);
}

impl JobStore for BucketStore {
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
        started(&self.target)
    }

    fn is_underway(&self) -> Result<bool> {
        Ok(self.started()?.is_some_and(|started| started.job.name() == self.job.name()))
    }

    fn finished(&self) -> Result<Option<String>> {
        finished(&self.target, &self.job)
    }

    fn tidy(&self, control: &Control) -> Result<()> {
        bucket::tidy(&self.target, &self.output, &self.build_dir(), &self.job, control)?;
        remove_local(&self.local.output().dir, control);
        Ok(())
    }

    /// Other jobs wait for the locks of groups. The folder of the local disk is joined as an output folder is.
    fn share(&mut self, now: NaiveDateTime, control: &Control) -> Result<bool> {
        let dir = self.local.output().dir.clone();
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        match job_states::join(&mut self.local, now, control)? {
            OpenedJob::Ready(_) => Ok(true),
            OpenedJob::Finished(_) => {
                Err(Error::output(dir, "holds an output; move it away, and run again"))
            }
        }
    }

    fn release(&mut self) {
        self.local.release();
    }

    fn has_locks(&self) -> bool {
        self.local.has_locks()
    }

    fn alone(&self, control: &Control) -> Result<Box<dyn LockedStore + '_>> {
        let Output { dir, wait, .. } = &self.output;
        let guard = guard(dir, &self.target, *wait, control)?;
        let lease = self.target.lock(LOCK, &self.owner, *wait, control)?;
        let lease = LeaseGuard::of(&self.target, lease);
        lease.refuse_unconditional(control)?;
        Ok(Box::new(LockedBucket { store: self, lease, guard }))
    }

    /// The lock of the local disk keeps away the processes that use the same folder there: they have the same owner.
    fn hold(&self, lock: &str) -> Result<Option<Box<dyn HeldLock>>> {
        let Some(local) = self.local.hold(lock)? else { return Ok(None) };
        let key = self.records.key(lock);
        let Some(lease) = self.target.lease(&key, &self.owner, &self.seen)? else {
            return Ok(None);
        };
        let lease = LeaseGuard::of(&self.target, lease);
        Ok(Some(Box::new(HeldGroup { lease, _local: local })))
    }

    fn folder(&self, group: &str) -> PathBuf {
        self.local.folder(group)
    }

    fn place(&self, group: &str) -> PathBuf {
        PathBuf::from(work(&format!("{GROUPS}/{}/{group}", self.job.name())))
    }

    /// A file that a killed process has uploaded is not uploaded again.
    fn keep(&self, group: &str, file: SizedFile<'_>, control: &Control) -> Result<Option<String>> {
        let SizedFile { name, bytes, blake3 } = file;
        let (target, path) = (&self.target, self.folder(group).join(name));
        let key = format!("{}/{name}", self.place(group).to_string_lossy());
        let hash = || expected(name, blake3);
        let version = if let Some(there) = target.holds(&key, bytes, hash(), control)? {
            there
        } else {
            let proof = prove(&WorkNames, &key).expect("it carries the job");
            let file = FileToUpload { file: opened(&path)?, path: &path, expected: hash() };
            target.upload(file, &proof, control)?
        };
        Ok(version.etag().map(str::to_owned))
    }

    fn holds(&self, it: &PackedGroup, hashed: bool, control: &Control) -> Result<bool> {
        if !hashed {
            return Ok(true);
        }
        let folder = it.dir.to_string_lossy();
        let there = self.target.entries_in(&folder)?;
        for SizedFile { name, bytes, blake3 } in it.kept() {
            control.tick()?;
            let key = format!("{folder}/{name}");
            let is_as_kept = |etag: Option<&str>| etag.is_some_and(|etag| it.has_etag(name, etag));
            if !there.iter().any(|entry| entry.name == key && is_as_kept(entry.etag()))
                && self.target.holds(&key, bytes, expected(name, blake3), control)?.is_none()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fetch(&self, it: &PackedGroup, control: &Control) -> Result<()> {
        let PackedGroup { name, dir: from, manifest, report, .. } = it;
        let dir = self.folder(name);
        // A process that was killed may have left some of them.
        let listed = ListedInGroup::by(manifest, &dir);
        for name in manifest.names().filter(|name| *name != REPORT) {
            let key = from.join(name).to_string_lossy().into_owned();
            place(&dir.join(name), &listed, |file| self.target.download(&key, file, control))?;
        }
        for (name, text) in [(REPORT, report), (MANIFEST, &manifest.to_text())] {
            place(&dir.join(name), &listed, |file| {
                file.write_all(text.as_bytes()).map_err(Error::io(&*dir))
            })?;
        }
        Ok(())
    }

    fn fetch_file(&self, it: &PackedGroup, name: &str, control: &Control) -> Result<PathBuf> {
        let key = it.dir.join(name).to_string_lossy().into_owned();
        // Others that use the folder may fetch it too.
        let path = regular::own(&self.folder(&format!("{}-{name}", it.name)), FETCHED_ENDING);
        place(&path, &GroupFiles, |file| self.target.download(&key, file, control))?;
        if it.is_file(name, &path, control)? {
            return Ok(path);
        }
        let reason = "has changed since it was uploaded; remove it, and run again";
        Err(Error::output(self.target.name_of(&key), reason))
    }

    fn forget(&self, group: &str) {
        remove_group(&self.folder(group));
    }

    /// The shards are copied inside the bucket.
    fn adopt(
        &self,
        to: &mut OutputFolder,
        shards: &[(PathBuf, WrittenShard)],
        _: &Control,
    ) -> Result<()> {
        to.adopt_in_bucket(shards)
    }

    fn end(self: Box<Self>, control: &Control) {
        let dir = self.local.output().dir.clone();
        drop(self);
        remove_local(&dir, control);
    }
}

/// The lock of a group, and that of its folder of the local disk.
#[derive(Debug)]
struct HeldGroup {
    lease: LeaseGuard,
    _local: Box<dyn HeldLock>,
}

impl HeldLock for HeldGroup {
    fn check(&self, control: &Control) -> Result<()> {
        self.lease.check(control)
    }
}

/// A bucket that this process has locked.
struct LockedBucket<'a> {
    store: &'a BucketStore,
    lease: LeaseGuard,
    /// The lock of the folder of the local disk.
    guard: FileLock,
}

impl LockedStore for LockedBucket<'_> {
    /// Unknown: the lease may have belonged to a process that has ended.
    fn waited(&self) -> bool {
        false
    }

    fn begin(self: Box<Self>, now: NaiveDateTime, control: &Control) -> Result<()> {
        self.lease.explained(self.store.replace_outputs(now, control), control)
    }

    fn remove_work(&self) -> Result<()> {
        remove_finished(&self.store.build_dir(), &self.store.job)?;
        remove_work(&self.store.target)
    }

    fn open(
        self: Box<Self>,
        now: NaiveDateTime,
        control: &Control,
    ) -> Result<OpenedJob<OpenOutput>> {
        let Self { store, lease, guard } = *self;
        let BucketStore { target, output, job, .. } = store;
        let generation = RunNames::of(job);
        let copies = target.refuse_unconditional_copy(&generation.prove(TRIAL));
        lease.explained(copies, control)?;
        end_unfinished_uploads(target);
        let earlier = ReplacedOutputs::find(target, output, job, control);
        let earlier = lease.explained(earlier, control)?;
        // An output that is put together from groups is never resumed: the groups are kept instead.
        let cannot_resume = output.cannot_resume || job.is_grouped();
        let local = Output { cannot_resume, ..local(output, store.build_dir()) };
        let disk = DiskStore::open(local.clone(), job)?;
        let mut bucket =
            OutputBucket::new(Arc::clone(target), lease, generation, local, earlier, guard);
        match job_states::open(&disk, now, control)? {
            OpenedJob::Ready(OpenOutput { mut folder, .. }) => {
                if let Some(uploads) = bucket.uploads(job) {
                    folder.upload_to(uploads);
                }
                Ok(OpenedJob::Ready(OpenOutput { folder, place: Box::new(bucket) }))
            }
            OpenedJob::Finished(report) => {
                // A run was killed before it had uploaded the folder.
                Box::new(bucket).finish(&HashMap::new(), control)?;
                Ok(OpenedJob::Finished(report))
            }
        }
    }
}

/// Writes a file of the groups to the local disk whole, or not at all, over one that the evidence claims.
fn place(
    path: &Path,
    evidence: &impl Evidence<Disk>,
    write: impl FnOnce(&mut fs::File) -> Result<()>,
) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(Error::io(path))?;
    let (new, mut file) = Temporary::named(path, NEW_ENDING).map_err(Error::io(path))?;
    write(&mut file)?;
    drop(file);
    new.persist(path, evidence).map_err(Error::io(path))
}
