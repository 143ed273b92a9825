//! [`Bucket`]: an output folder in a bucket. The job runs in a folder of the local disk, which is uploaded once it has
//! finished, its manifest last.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::arrangement::Arrangement;
use super::files::{MANIFEST, REPORT, TOKENS, WORK};
use super::manifest::Manifest;
use super::survey::is_in_the_way;
use crate::config::{Output, RemoteOutput};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::regular::{self, Links};
use crate::storage::{Lease, Target};
use crate::wording::{Message, message, set};

/// The most files that a message names.
const NAMED: usize = 5;

/// The ending of the lock file beside the folder of the local disk.
const LOCK_ENDING: &str = "lock";

/// The ending of the manifest that is being replaced, beside the folder of the local disk.
const REPLACED_ENDING: &str = "replaced";

/// An output folder in a bucket that only this run writes to.
#[derive(Debug)]
pub struct Bucket {
    target: Target,
    lease: Lease,
    /// The same output, in the folder of the local disk.
    local: Output,
    /// The manifest that the new output replaces, if there is one.
    replaced: Option<Manifest>,
    /// The lock of the folder of the local disk.
    _guard: fs::File,
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
    let target = Target::open(&remote.url, &remote.storage, control.flag())?;
    let again = output.overwrite && !output.shared || output.once;
    if !again && let Some(report) = finished(&target, job)? {
        return Ok(BucketOpened::Finished(report));
    }
    let guard = guard(&output.dir, &target, output.wait, control)?;
    let owner = owner(&output.dir);
    let lease = target.lock(&owner, output.wait, control)?;
    if !again && let Some(report) = finished(&target, job)? {
        target.unlock(lease)?;
        return Ok(BucketOpened::Finished(report));
    }
    let local =
        Output { remote: None, overwrite: true, shared: true, wait: true, ..output.clone() };
    let replaced = replaced(&target, &output.dir)?;
    if let Err(refused) = refuse_others(&target, output, job, replaced.as_ref()) {
        target.unlock(lease)?;
        return Err(refused);
    }
    Ok(BucketOpened::Ready(Bucket { target, lease, local, replaced, _guard: guard }))
}

impl Bucket {
    /// The output in the folder of the local disk.
    pub fn local(&self) -> &Output {
        &self.local
    }

    /// Uploads the finished folder of the local disk, and removes it. The manifest is uploaded last.
    pub fn finish(self, control: &Control) -> Result<()> {
        let Self { target, lease, local, replaced, .. } = self;
        let dir = &local.dir;
        let path = dir.join(MANIFEST);
        let manifest = Manifest::read(&path, Links::Refused)?;
        let manifest =
            manifest.ok_or(std::io::ErrorKind::NotFound.into()).map_err(Error::io(&path))?;
        let files = manifest.files.iter().map(|file| (&file.name, file.bytes, &file.blake3));
        let beside = manifest.beside.iter().map(|file| (&file.name, file.bytes, &file.blake3));
        let tokens = TOKENS.to_owned();
        let kept = manifest.tokens.iter().map(|kept| (&tokens, kept.bytes, &kept.blake3));
        let new: Vec<_> = files.chain(kept).chain(beside).collect();
        if let Some(replaced) = &replaced {
            // From here to the last line, the folder holds no whole output. A later run still knows what it held.
            let saved = dir.with_extension(REPLACED_ENDING);
            fs::write(&saved, replaced.to_text()).map_err(Error::io(&saved))?;
            target.remove(MANIFEST)?;
            let names: HashSet<&str> = new.iter().map(|(name, ..)| name.as_str()).collect();
            for name in replaced.names().filter(|name| !names.contains(name)) {
                control.tick()?;
                target.remove(name)?;
            }
        }
        for (name, bytes, blake3) in new {
            control.tick()?;
            target.check(&lease)?;
            if !target.holds(name, bytes, blake3)? {
                target.upload(&dir.join(name), name, blake3, control)?;
            }
        }
        target.check(&lease)?;
        let text = fs::read(&path).map_err(Error::io(&path))?;
        target.upload(&path, MANIFEST, blake3::hash(&text).to_hex().as_str(), control)?;
        let _ = fs::remove_file(dir.with_extension(REPLACED_ENDING));
        target.unlock(lease)?;
        // The output is whole without it. Where it cannot be removed, the next run of the folder does it.
        let _ = remove(dir, &manifest);
        Ok(())
    }
}

/// The manifest of the output that is replaced: the one in the bucket, or the one that a run which was killed has removed.
fn replaced(target: &Target, dir: &Path) -> Result<Option<Manifest>> {
    if let Some(text) = target.read(MANIFEST)? {
        return Ok(Manifest::parse(&text));
    }
    Manifest::read(&dir.with_extension(REPLACED_ENDING), Links::Refused)
}

/// The report of the job, if the bucket holds its output.
fn finished(target: &Target, job: &Identity) -> Result<Option<String>> {
    let Some(text) = target.read(MANIFEST)? else { return Ok(None) };
    let manifest = Manifest::parse(&text).filter(|it| it.job.differences(job).is_none());
    let Some(manifest) = manifest else { return Ok(None) };
    let Some(entry) = manifest.beside.iter().find(|file| file.name == REPORT) else {
        return Ok(None);
    };
    let Some(report) = target.read(REPORT)? else { return Ok(None) };
    let is_whole = blake3::hash(&report).to_hex().as_str() == entry.blake3;
    let sizes: std::collections::HashMap<String, u64> =
        target.entries()?.into_iter().map(|entry| (entry.name, entry.bytes)).collect();
    let holds = |name: &str, bytes: u64| sizes.get(name) == Some(&bytes);
    let shards = manifest.files.iter().all(|file| holds(&file.name, file.bytes));
    let tokens = manifest.tokens.iter().all(|tokens| holds(TOKENS, tokens.bytes));
    Ok((is_whole && shards && tokens).then(|| String::from_utf8_lossy(&report).into_owned()))
}

/// Refuses to write beside the output of another job, or over files of others.
fn refuse_others(
    target: &Target,
    output: &Output,
    job: &Identity,
    replaced: Option<&Manifest>,
) -> Result<()> {
    let refuse = |reason: Message| Err(Error::output(target.name(), reason));
    // An output that a killed run was replacing is replaced by the next one.
    let is_there = replaced.is_some_and(|_| !output.dir.with_extension(REPLACED_ENDING).exists());
    if let Some(old) = replaced.filter(|_| is_there && !output.overwrite) {
        let reason = match old.job.differences(job) {
            Some(differences) => {
                format!("holds the output of another job; what differs: {differences}")
            }
            None => "holds an output of this job that has changed".to_owned(),
        };
        return refuse(message![
            reason,
            "; write to another folder, or pass ",
            set("overwrite", true),
            " to replace it"
        ]);
    }
    // The remains of an upload of the same job, in a run that was killed.
    let staged = Manifest::read(&output.dir.join(MANIFEST), Links::Refused)?;
    let staged = staged.filter(|it| it.job.differences(job).is_none());
    let known: HashSet<&str> =
        replaced.into_iter().chain(&staged).flat_map(Manifest::names).chain([MANIFEST]).collect();
    let arrangement = Arrangement::of(output);
    let others = target.entries()?.into_iter().map(|entry| entry.name);
    let others = others.filter(|name| {
        let is_known = known.contains(name.as_str()) && (name != MANIFEST || replaced.is_some());
        let is_work = name.starts_with(WORK);
        !is_known && !is_work && (!output.overwrite || is_in_the_way(name, arrangement))
    });
    let others: Vec<String> = others.take(NAMED + 1).map(|name| format!("`{name}`")).collect();
    if others.is_empty() {
        return Ok(());
    }
    let more = if others.len() > NAMED { " and others" } else { "" };
    let named = others[..others.len().min(NAMED)].join(", ");
    refuse(message![format!(
        "holds files that this job did not write: {named}{more}; write to a folder of its own"
    )])
}

/// The lock of the folder of the local disk: a run that was killed has given it back.
fn guard(dir: &Path, target: &Target, wait: bool, control: &Control) -> Result<fs::File> {
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
fn owner(dir: &Path) -> String {
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
        fs::remove_file(dir.join(name))?;
    }
    for name in super::files::split_folders() {
        let _ = fs::remove_dir(dir.join(name));
    }
    fs::remove_dir(dir)
}
