//! [`finished`]: the job whose output a bucket holds, and the leftovers of one that was killed at the very end.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::lease_guard::LeaseGuard;
use super::local_folder::{guard, owner, remove_finished};
use super::replaced_outputs::ReplacedOutputs;
use super::run_names::{remove_groups, remove_uploads};
use crate::config::Output;
use crate::config::identity::Identity;
use crate::error::Result;
use crate::sink::file_names::{MANIFEST, REPORT, TOKENS, WORK};
use crate::sink::manifest::Manifest;
use crate::storage::{BucketFolder, LOCK, SeenLocks};
use crate::util::control::Control;

/// Removes all objects of the work folder that a finished output needs no more: they are of its job, or of one that it has replaced.
/// Only who holds the lock of the whole folder may do so.
pub(in crate::sink) fn remove_work(target: &BucketFolder) -> Result<()> {
    ReplacedOutputs::remove_records(target)?;
    remove_uploads(target)?;
    remove_groups(target)
}

/// Removes the leftovers of a run of a finished job that was killed at the very end, in the work folder and in the folder `local` of
/// the disk.
pub(in crate::sink) fn tidy(
    target: &Arc<BucketFolder>,
    output: &Output,
    local: &Path,
    job: &Identity,
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

/// The identity of the finished job in a bucket, if it has one.
pub(in crate::sink) fn finished_job_in(target: &BucketFolder) -> Result<Option<Arc<Identity>>> {
    let manifest = target.read(MANIFEST)?.and_then(|text| Manifest::parse(&text));
    Ok(manifest.map(|manifest| manifest.job))
}

/// The report of the job, if the bucket holds its output.
pub(in crate::sink) fn finished(target: &BucketFolder, job: &Identity) -> Result<Option<String>> {
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
