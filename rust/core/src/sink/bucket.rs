//! [`Bucket`]: an output folder in a bucket. The job runs in a folder of the local disk. Its shards may be uploaded before it has
//! finished, its other files afterwards, the manifest last.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use chrono::Utc;

use super::arrangement::Arrangement;
use super::bucket_work::{remove_groups, started, work};
use super::files::{MANIFEST, REPLACED, REPORT, TOKENS, WORK};
use super::manifest::Manifest;
use super::survey::is_in_the_way;
use super::uploads::{Uploads, upload_all};
use crate::config::{Output, RemoteOutput};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::ordered::ordered;
use crate::regular::{self, Links};
use crate::storage::{LOCK, Lease, SeenLocks, Target};
use crate::threads::WAITING;
use crate::wording::{Message, message, set};

/// The most files that a message names.
const NAMED: usize = 5;

/// The ending of the lock file beside the folder of the local disk.
const LOCK_ENDING: &str = "lock";

/// An output folder in a bucket that only this run writes to.
#[derive(Debug)]
pub struct Bucket {
    target: Arc<Target>,
    lease: Arc<Lease>,
    /// The same output, in the folder of the local disk.
    local: Output,
    earlier: Earlier,
    /// The uploads that begin before the job has finished.
    uploads: Option<Arc<Uploads>>,
    /// The lock of the folder of the local disk.
    _guard: fs::File,
}

/// The outputs that lay in a bucket before, whole or not: the new one replaces them.
#[derive(Debug)]
pub(super) struct Earlier {
    /// The manifest of the last whole output, which may be removed already.
    replaced: Option<Manifest>,
    /// The manifest of an output that was being uploaded.
    placing: Option<Manifest>,
}

/// An output folder in a bucket before a run.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a run")]
pub enum BucketOpened {
    /// It is ready: the job can run in the folder of the local disk.
    Ready(Bucket),
    /// The same job has finished there before: the content of its `report.json`.
    Finished(String),
}

/// Opens an output folder in a bucket for the job with the identity `job`.
///
/// Fails with [`Error::Output`] as [`open`](super::open) does for a folder, and if the store cannot keep two writers apart.
pub fn open_bucket(
    (output, remote): (&Output, &RemoteOutput),
    job: &Arc<Identity>,
    control: &Control,
) -> Result<BucketOpened> {
    let target = Arc::new(Target::open(&remote.url, &remote.storage, control.flag())?);
    let again = output.overwrite && !output.shared || output.once;
    if !again && let Some(report) = finished_and_tidy(&target, output, job, control)? {
        return Ok(BucketOpened::Finished(report));
    }
    let guard = guard(&output.dir, &target, output.wait, control)?;
    let owner = owner(&output.dir);
    let lease = target.lock(LOCK, &owner, output.wait, control)?;
    target.refuse_unconditional(&lease)?;
    if !again && let Some(report) = finished(&target, job)? {
        target.unlock(lease);
        return Ok(BucketOpened::Finished(report));
    }
    let local =
        Output { remote: None, overwrite: true, shared: true, wait: true, ..output.clone() };
    match Earlier::find(&target, output, job) {
        Ok(earlier) => Ok(BucketOpened::Ready(Bucket::new(target, lease, local, earlier, guard))),
        Err(refused) => {
            target.unlock(lease);
            Err(refused)
        }
    }
}

impl Bucket {
    pub(super) fn new(
        target: Arc<Target>,
        lease: Lease,
        local: Output,
        earlier: Earlier,
        guard: fs::File,
    ) -> Self {
        let (lease, uploads) = (Arc::new(lease), None);
        Self { target, lease, local, earlier, uploads, _guard: guard }
    }

    /// The uploads of shards that are finished before the job is; `None` if they have to wait for its end: they replace an
    /// output that is whole, or get other names.
    pub fn uploads(&mut self, job: &Arc<Identity>) -> Option<Arc<Uploads>> {
        let is_free = self.earlier.replaced.is_none();
        if !is_free || Arrangement::of(&self.local) != Arrangement::Plain {
            return None;
        }
        let none = || Manifest::new(Arc::clone(job), Utc::now().naive_utc(), Vec::new());
        let placing = self.earlier.placing.clone().unwrap_or_else(none);
        let uploads = Arc::new(Uploads::start(&self.target, &self.lease, placing));
        self.uploads = Some(Arc::clone(&uploads));
        Some(uploads)
    }

    /// Gives the bucket free after the job has failed.
    pub fn give_up(self, error: &Error) {
        let Self { target, lease, uploads, _guard, .. } = self;
        if let Some(uploads) = uploads {
            uploads.give_up(error.may_pass());
        }
        unlock(&target, lease);
    }

    /// The output in the folder of the local disk.
    pub fn local(&self) -> &Output {
        &self.local
    }

    /// Gives the bucket free, after [`finish`](Self::finish) if the folder of the local disk is finished.
    pub fn finish_if(
        self,
        is_finished: bool,
        elsewhere: &HashMap<String, String>,
        control: &Control,
    ) -> Result<()> {
        if is_finished {
            return self.finish(elsewhere, control);
        }
        unlock(&self.target, self.lease);
        Ok(())
    }

    /// Uploads the finished folder of the local disk, and removes it. The manifest is uploaded last.
    ///
    /// Files that lie elsewhere in the bucket are copied there: `elsewhere` has their names there, by those in the folder.
    pub fn finish(self, elsewhere: &HashMap<String, String>, control: &Control) -> Result<()> {
        let Self { target, lease, local, earlier, uploads, _guard } = self;
        let uploaded = uploads.as_ref().map(|uploads| uploads.end()).unwrap_or_default();
        drop(uploads);
        let dir = &local.dir;
        let path = dir.join(MANIFEST);
        let manifest = Manifest::read(&path, Links::Refused)?;
        let manifest = manifest.ok_or(ErrorKind::NotFound.into()).map_err(Error::io(&path))?;
        let files = manifest.files.iter().map(|file| (&file.name, file.bytes, &file.blake3));
        let beside = manifest.beside.iter().map(|file| (&file.name, file.bytes, &file.blake3));
        let tokens = TOKENS.to_owned();
        let kept = manifest.tokens.iter().map(|kept| (&tokens, kept.bytes, &kept.blake3));
        let new: Vec<_> = files.chain(kept).chain(beside).collect();
        // From here to the last line, the folder holds no whole output. A later run still knows what it held.
        if let Some(replaced) = &earlier.replaced {
            target.put(&work(REPLACED), replaced.to_text())?;
            target.remove(MANIFEST)?;
        }
        let names: HashSet<&str> = new.iter().map(|(name, ..)| name.as_str()).collect();
        let left = earlier.names().chain(uploaded.keys().map(String::as_str));
        let left = left.filter(|name| !names.contains(name)).map(str::to_owned);
        target.remove_all(&left.collect::<Vec<_>>())?;
        target.put(&work(MANIFEST), manifest.to_text())?;
        let is_there = |name: &str, blake3: &str| uploaded.get(name).is_some_and(|it| it == blake3);
        let missing = new.into_iter().filter(|(name, _, blake3)| !is_there(name, blake3));
        let (copied, missing): (Vec<_>, Vec<_>) =
            missing.partition(|(name, ..)| elsewhere.contains_key(*name));
        // What an earlier output cannot have left there is not asked for.
        let is_first = earlier.names().next().is_none();
        let mut copied = copied.into_iter();
        let copy = |(name, bytes, blake3): (&String, u64, &String)| {
            target.check(&lease, control)?;
            if !is_first && target.holds(name, bytes, blake3)? {
                return Ok(());
            }
            target.copy(&elsewhere[name], name)
        };
        ordered(WAITING, || Ok(copied.next()), || copy, Ok)?;
        // The report and its like come after all rows.
        let beside: HashSet<&String> = manifest.beside.iter().map(|file| &file.name).collect();
        let (last, rows): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|(name, ..)| beside.contains(name));
        for missing in [rows, last] {
            let missing = missing
                .into_iter()
                .map(|(name, bytes, blake3)| (name.as_str(), name.clone(), bytes, blake3.as_str()));
            upload_all((&target, &lease), dir, missing, is_first, control)?;
        }
        target.check(&lease, control)?;
        let text = fs::read(&path).map_err(Error::io(&path))?;
        let hash = blake3::hash(&text).to_hex();
        let file = fs::File::open(&path).map_err(Error::io(&path))?;
        target.upload_file((file, &path), MANIFEST, hash.as_str(), control)?;
        target.remove_all(&[work(REPLACED), work(MANIFEST)])?;
        // What else is there is of a job that this one has replaced, or has put together.
        remove_groups(&target)?;
        unlock(&target, lease);
        // The output is whole without it. Where it cannot be removed, the next run of the folder does it.
        let _ = remove(dir, &manifest);
        Ok(())
    }
}

/// Gives a lock back. The uploads that shared it have ended.
fn unlock(target: &Target, lease: Arc<Lease>) {
    if let Some(lease) = Arc::into_inner(lease) {
        target.unlock(lease);
    }
}

/// [`finished`], after what a run has left in the work folder that was killed at the very end was removed.
pub(super) fn finished_and_tidy(
    target: &Target,
    output: &Output,
    job: &Identity,
    control: &Control,
) -> Result<Option<String>> {
    let report = finished(target, job)?;
    let is_own = |it: Manifest| it.job.differences(job).is_none();
    if report.is_none()
        || target.entries_in(WORK)?.is_empty()
        || !started(target)?.is_none_or(is_own)
    {
        return Ok(report);
    }
    // It does no harm where it has to stay.
    let Ok(_guard) = guard(&output.dir, target, false, control) else { return Ok(report) };
    if let Some(lease) = target.lease(LOCK, &owner(&output.dir), &SeenLocks::default())? {
        let removed = target.remove_all(&[work(REPLACED), work(MANIFEST)]);
        let removed = removed.and_then(|()| remove_groups(target));
        target.unlock(lease);
        removed?;
    }
    Ok(report)
}

/// The report of the job, if the bucket holds its output.
pub(super) fn finished(target: &Target, job: &Identity) -> Result<Option<String>> {
    let Some(text) = target.read(MANIFEST)? else { return Ok(None) };
    let manifest = Manifest::parse(&text).filter(|it| it.job.differences(job).is_none());
    let Some(manifest) = manifest else { return Ok(None) };
    let Some(entry) = manifest.beside.iter().find(|file| file.name == REPORT) else {
        return Ok(None);
    };
    let Some(report) = target.read(REPORT)? else { return Ok(None) };
    let is_whole = blake3::hash(&report).to_hex().as_str() == entry.blake3;
    let sizes: HashMap<String, u64> =
        target.entries()?.into_iter().map(|entry| (entry.name, entry.bytes)).collect();
    let holds = |name: &str, bytes: u64| sizes.get(name) == Some(&bytes);
    let shards = manifest.files.iter().all(|file| holds(&file.name, file.bytes));
    let tokens = manifest.tokens.iter().all(|tokens| holds(TOKENS, tokens.bytes));
    Ok((is_whole && shards && tokens).then(|| String::from_utf8_lossy(&report).into_owned()))
}

impl Earlier {
    /// The outputs that lie in a bucket. Refuses to write beside the output of another job, or over files of others.
    pub(super) fn find(target: &Target, output: &Output, job: &Identity) -> Result<Self> {
        let read = |name: &str| -> Result<_> {
            Ok(target.read(name)?.and_then(|text| Manifest::parse(&text)))
        };
        let whole = read(MANIFEST)?;
        if let Some(old) = whole.as_ref().filter(|_| !output.overwrite) {
            return match old.job.differences(job) {
                Some(differences) => Err(held(target, "the output of another job", &differences)),
                None => Err(changed(target)),
            };
        }
        let underway = started(target)?.filter(|_| !output.overwrite);
        if let Some(differences) = underway.and_then(|it| it.job.differences(job)) {
            return Err(held(target, "the groups of another job", &differences));
        }
        let replaced = match whole {
            Some(whole) => Some(whole),
            None => read(&work(REPLACED))?,
        };
        let placing = read(&work(MANIFEST))?;
        let placing = placing.filter(|it| output.overwrite || it.job.differences(job).is_none());
        let earlier = Self { replaced, placing };
        earlier.refuse_others(target, output)?;
        Ok(earlier)
    }

    /// The names of their files.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.replaced.iter().chain(&self.placing).flat_map(Manifest::names)
    }

    fn refuse_others(&self, target: &Target, output: &Output) -> Result<()> {
        let known: HashSet<&str> = self.names().collect();
        let arrangement = Arrangement::of(output);
        let others = target.entries()?.into_iter().map(|entry| entry.name);
        let others = others.filter(|name| {
            let is_known =
                known.contains(name.as_str()) || name == MANIFEST && self.replaced.is_some();
            let is_work = name.starts_with(WORK);
            !is_known && !is_work && (!output.overwrite || is_in_the_way(name, arrangement))
        });
        let others: Vec<String> = others.take(NAMED + 1).map(|name| format!("`{name}`")).collect();
        if others.is_empty() {
            return Ok(());
        }
        let more = if others.len() > NAMED { " and others" } else { "" };
        let named = others[..others.len().min(NAMED)].join(", ");
        let reason = format!(
            "holds files that this job did not write: {named}{more}; write to a folder of its own"
        );
        Err(Error::output(target.name(), reason))
    }
}

/// The error for a bucket that holds `what` with other options.
fn held(target: &Target, what: &str, differences: &str) -> Error {
    let reason = format!("holds {what}; what differs: {differences}");
    Error::output(target.name(), or_replace(reason))
}

/// The error for an output that has changed since it was written.
fn changed(target: &Target) -> Error {
    let reason = "holds an output of this job that has changed".to_owned();
    Error::output(target.name(), or_replace(reason))
}

fn or_replace(reason: String) -> Message {
    let replace = set("overwrite", true);
    message![reason, "; write to another folder, or pass ", replace, " to replace it"]
}

/// The lock of the folder of the local disk: a run that was killed has given it back.
pub(super) fn guard(
    dir: &Path,
    target: &Target,
    wait: bool,
    control: &Control,
) -> Result<fs::File> {
    let path = dir.with_extension(LOCK_ENDING);
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    let file = regular::open_to_write(&path).map_err(Error::io(&path))?;
    loop {
        control.tick()?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if wait => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            Err(fs::TryLockError::WouldBlock) => {
                let reason =
                    message!["another process packs into it; ", set("wait", true), " waits for it"];
                return Err(Error::output(target.name(), reason));
            }
            Err(fs::TryLockError::Error(error)) => return Err(Error::io(path)(error)),
        }
    }
}

/// The name of the folder of the local disk among those of all machines. Who holds its lock is the run that wrote it.
pub(super) fn owner(dir: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .or_else(|_| fs::read_to_string("/etc/hostname"))
        .unwrap_or_default();
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let mut hasher = blake3::Hasher::new();
    hasher.update(host.trim().as_bytes()).update(dir.as_os_str().as_encoded_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Removes the files of a finished folder of the local disk, and the folder if nothing else is in it.
fn remove(dir: &Path, manifest: &Manifest) -> std::io::Result<()> {
    // The manifest goes first: without it, no run takes the other files for whole.
    for name in [MANIFEST].into_iter().chain(manifest.names()) {
        match fs::remove_file(dir.join(name)) {
            // It lay elsewhere in the bucket.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    for name in super::files::split_folders() {
        let _ = fs::remove_dir(dir.join(name));
    }
    fs::remove_dir(dir)
}
