//! [`Bucket`]: an output folder in a bucket. The job runs in a folder of the local disk. Its shards may be uploaded before it has
//! finished, its other files afterwards, the manifest last.

pub(super) mod job_files;
pub(super) mod lease_guard;
pub(super) mod replaced_outputs;
pub(super) mod single_files;
mod uploaded_copies;
pub(super) mod uploads;
pub(super) mod work;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use self::job_files::BucketPlace;
use self::lease_guard::LeaseGuard;
use self::replaced_outputs::ReplacedOutputs;
use self::uploads::{Uploads, with_each};
use self::work::{RunNames, remove_groups, remove_uploads, stopped_uploads, work};
use super::file_names::{MANIFEST, REPORT, TOKENS, WORK};
use super::manifest::Manifest;
use super::shards::arrangement::Arrangement;
use super::store::coordination_files::Hold;
use super::store::job_store::Placement;
use crate::config::Output;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::storage::{LOCK, SeenLocks, Target};
use crate::util::control::Control;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{remove_empty, remove_file};
use crate::util::wording::{message, set};
use uploaded_copies::UploadedCopies;

/// The name of an object for a trial of the ways in which the store copies.
pub(super) const TRIAL: &str = "trial";

/// The ending of the lock file beside the folder of the local disk.
const LOCK_ENDING: &str = "lock";

/// An output folder in a bucket that only this run writes to.
#[derive(Debug)]
pub(crate) struct Bucket {
    target: Arc<Target>,
    lease: Arc<LeaseGuard>,
    /// The names of the uploads of this run before they are copied to their places.
    generation: Arc<RunNames>,
    /// The same output, in the folder of the local disk.
    local: Output,
    earlier: ReplacedOutputs,
    /// The uploads that begin before the job has finished.
    uploads: Option<Arc<Uploads>>,
    /// The lock of the folder of the local disk.
    _guard: fs::File,
}

impl Bucket {
    pub(crate) fn new(
        target: Arc<Target>,
        (lease, generation): (LeaseGuard, RunNames),
        local: Output,
        earlier: ReplacedOutputs,
        guard: fs::File,
    ) -> Self {
        let (lease, generation, uploads) = (Arc::new(lease), Arc::new(generation), None);
        Self { target, lease, generation, local, earlier, uploads, _guard: guard }
    }

    /// The uploads of shards that are finished before the job is; `None` if they have to wait for its end: they replace an
    /// output that is whole, or get other names.
    pub(crate) fn uploads(&mut self, job: &Arc<Identity>) -> Option<Arc<Uploads>> {
        if self.earlier.is_whole() || Arrangement::of(&self.local) != Arrangement::Plain {
            return None;
        }
        // Without a list of them, they are uploaded again.
        let stopped = stopped_uploads(&self.target, job).unwrap_or_default();
        let uploads = Uploads::start(&self.target, &self.lease, &self.generation, stopped);
        let uploads = Arc::new(uploads);
        self.uploads = Some(Arc::clone(&uploads));
        Some(uploads)
    }
}

impl Placement for Bucket {
    /// Uploads the folder of the local disk, and removes it. The manifest is uploaded last. Files that lie elsewhere in the bucket are
    /// copied there.
    fn finish(
        self: Box<Self>,
        elsewhere: &HashMap<String, String>,
        control: &Control,
    ) -> Result<()> {
        let Self { target, lease, generation, local, mut earlier, uploads, _guard } = *self;
        let uploaded = uploads.as_ref().map(|uploads| uploads.end()).unwrap_or_default();
        drop(uploads);
        let dir = &local.dir;
        let path = dir.join(MANIFEST);
        let manifest = Manifest::read(&path, Links::Refused)?;
        let manifest = manifest.ok_or(ErrorKind::NotFound.into()).map_err(Error::io(&path))?;
        lease.check(control)?;
        earlier.refuse_taken(&target, &manifest)?;
        // From here to the last line, the folder holds no whole output. A later run still knows its old content.
        earlier.write_replaced(&target)?;
        let there = earlier.remove(&target, &manifest)?;
        target.write_own(&work(MANIFEST), manifest.to_text(), &earlier)?;
        let bucket = BucketPlace { target: &target, generation: &generation, dir, control };
        let missing = manifest.listed().filter(|(name, ..)| !there.contains(*name));
        // The report and its like come after all rows.
        let metadata_files: HashSet<&str> =
            manifest.metadata_files.iter().map(|file| &*file.name).collect();
        let (last, rows): (Vec<_>, Vec<_>) =
            missing.partition(|(name, ..)| metadata_files.contains(name));
        for missing in [rows, last] {
            let place = |(name, bytes, blake3): (&str, u64, &str)| {
                let early = uploaded.get(name).filter(|(hash, _)| hash == blake3);
                let from = elsewhere.get(name).or_else(|| early.map(|(_, place)| place));
                bucket.place((name, bytes, blake3), from.map(String::as_str))
            };
            with_each(&*lease, missing, place, control)?;
        }
        lease.check(control)?;
        let text = fs::read(&path).map_err(Error::io(&path))?;
        target.write_new(MANIFEST, text)?;
        remove_work(&target)?;
        drop(lease);
        // The output is whole without it. Where it cannot be removed, the next run of the folder does it.
        let _ = remove_local(dir, &manifest);
        Ok(())
    }

    fn give_up(self: Box<Self>, error: &Error) {
        if let Some(uploads) = self.uploads {
            uploads.give_up(error.may_pass());
        }
    }
}

/// Removes all objects of the work folder that a finished output needs no more: they are of its job, or of one that it has replaced.
/// Only who holds the lock of the whole folder may do so.
pub(super) fn remove_work(target: &Target) -> Result<()> {
    ReplacedOutputs::remove_records(target)?;
    remove_uploads(target)?;
    remove_groups(target)
}

/// Removes the leftovers of a run of a finished job that was killed at the very end, in the work folder and in the folder `local` of
/// the disk.
pub(super) fn tidy(
    target: &Arc<Target>,
    output: &Output,
    (local, job): (&Path, &Identity),
    control: &Control,
) -> Result<()> {
    let is_tidy = target.entries_in(WORK)?.is_empty();
    if is_tidy && !local.join(MANIFEST).exists() {
        return Ok(());
    }
    // It does no harm where it has to stay.
    let Ok(_guard) = guard(&output.dir, target, false, control) else { return Ok(()) };
    remove_finished(local, job)?;
    if is_tidy {
        return Ok(());
    }
    let (owner, seen) = (owner(&output.dir), SeenLocks::default());
    if let Some(lease) = target.lease(LOCK, &owner, &seen)? {
        let _lease = LeaseGuard::of(target, lease);
        remove_work(target)?;
    }
    Ok(())
}

/// Removes a folder of the local disk in which the output of a job was finished.
pub(super) fn remove_finished(dir: &Path, job: &Identity) -> Result<()> {
    if let Some(local) = Manifest::read(&dir.join(MANIFEST), Links::Refused)?
        && local.job.differences(job).is_none()
    {
        // It does no harm where it has to stay.
        let _ = remove_local(dir, &local);
    }
    Ok(())
}

/// The identity of the finished job in a bucket, if it has one.
pub(super) fn finished_job_in(target: &Target) -> Result<Option<Arc<Identity>>> {
    let manifest = target.read(MANIFEST)?.and_then(|text| Manifest::parse(&text));
    Ok(manifest.map(|manifest| manifest.job))
}

/// The report of the job, if the bucket holds its output.
pub(super) fn finished(target: &Target, job: &Identity) -> Result<Option<String>> {
    let Some(text) = target.read(MANIFEST)? else { return Ok(None) };
    let manifest = Manifest::parse(&text).filter(|it| it.job.differences(job).is_none());
    let Some(manifest) = manifest else { return Ok(None) };
    let Some(entry) = manifest.metadata_files.iter().find(|file| file.name == REPORT) else {
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
                let reason = message![
                    "another process packs into it; ",
                    set("exists.wait", true),
                    " waits for it"
                ];
                return Err(Error::Busy { path: target.name(), reason });
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

/// Removes the files of a finished folder of the local disk, as far as they are as its manifest says, and the folder if nothing else
/// is in it.
fn remove_local(dir: &Path, manifest: &Manifest) -> std::io::Result<()> {
    let removable = UploadedCopies::of(dir, manifest);
    for proof in removable.proofs() {
        remove_file(proof)?;
    }
    for name in super::file_names::split_folders() {
        let _ = remove_empty(&dir.join(name));
    }
    remove_empty(dir)
}
