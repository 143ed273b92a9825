//! The names in the work folder of a bucket, and its groups as a whole.

use std::collections::HashMap;

use crate::config::identity::Identity;
use crate::error::Result;
use crate::sink::file_names::{GROUPS, STARTED, WORK};
use crate::sink::groups::group_files;
use crate::sink::groups::group_files::DECIDED;
use crate::sink::manifest::Manifest;
use crate::storage::{BucketFolder, Version};
use crate::util::disk::removal;
use crate::util::disk::removal::{Claim, Evidence, Proof};
use crate::util::unique_hex::unique_hex;

/// The folder of uploads before they are copied to their places, in the work folder of the bucket.
const UPLOADS: &str = "uploads";

/// Hexadecimal digits of the name of a job.
const DIGITS: usize = 2 * blake3::OUT_LEN;

/// Hexadecimal digits of the number of a run.
const RUN_DIGITS: usize = 16;

/// The folder of the states of groups, in the work folder of the bucket.
pub(crate) const STATE: &str = "state";

/// The name of an object for a trial of the ways in which the store copies.
pub(crate) const TRIAL: &str = "trial";

/// A name in the work folder of a bucket.
pub(crate) fn work(name: &str) -> String {
    format!("{WORK}/{name}")
}

/// The record of the job that has begun in a bucket.
pub(crate) fn started(target: &BucketFolder) -> Result<Option<Manifest>> {
    let text = target.read(&work(STARTED))?;
    Ok(text.and_then(|text| Manifest::parse(&text)))
}

/// [`started`], with the version of the record.
pub(crate) fn started_version(target: &BucketFolder) -> Result<Option<(Manifest, Version)>> {
    let read = target.read_version(&work(STARTED))?;
    Ok(read.and_then(|(text, version)| Some((Manifest::parse(&text)?, version))))
}

/// The names of the uploads of one run of a job, before they are copied to their places. No other run has them.
#[derive(Debug)]
pub(crate) struct RunNames(String);

impl RunNames {
    pub(crate) fn of(job: &Identity) -> Self {
        Self::of_name(&job.name())
    }

    /// The names of the uploads of a folder of files that is no job, by a hash of its URL.
    pub(crate) fn named(hash: &blake3::Hash) -> Self {
        Self::of_name(&hash.to_hex())
    }

    fn of_name(job: &str) -> Self {
        Self(work(&format!("{UPLOADS}/{job}-{}", unique_hex())))
    }

    /// The proof that a name of this run is one of it.
    pub(crate) fn prove(&self, name: &str) -> Proof<BucketFolder> {
        let name = format!("{}/{name}", self.0);
        removal::prove(&WorkNames, &name).expect("it carries the job")
    }
}

/// The names in the work folder of a bucket that carry a job: of its uploads, of its groups, and of their states.
pub(crate) struct WorkNames;

impl Evidence<BucketFolder> for WorkNames {
    fn claim(&self, name: &String) -> Claim<Version> {
        if job_of(name).is_some() { Claim::Name } else { Claim::None }
    }
}

/// The job that a name in the work folder carries.
fn job_of(name: &str) -> Option<&str> {
    let mut parts = name.strip_prefix(WORK)?.strip_prefix('/')?.splitn(3, '/');
    let (folder, job, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|it| it.is_ascii_hexdigit())
    };
    let group = |name: &str| group_files::parse(name).is_some();
    let is_ours = match folder {
        UPLOADS => {
            let (job, run) = job.split_once('-')?;
            return (is_hex(job, DIGITS) && is_hex(run, RUN_DIGITS)).then_some(job);
        }
        GROUPS => rest.split_once('/').is_some_and(|(folder, _)| group(folder)),
        STATE => rest == DECIDED || group(rest),
        _ => false,
    };
    (is_ours && is_hex(job, DIGITS)).then_some(job)
}

/// The uploads of stopped runs of a job, by the names that they will have.
pub(crate) fn stopped_uploads(
    target: &BucketFolder,
    job: &Identity,
) -> Result<HashMap<String, String>> {
    let job = job.name();
    let entries = target.entries_in(&work(UPLOADS))?.into_iter();
    let named = entries.filter(|entry| job_of(&entry.name) == Some(&job)).filter_map(|entry| {
        let name = entry.name.splitn(4, '/').nth(3)?.to_owned();
        Some((name, entry.name))
    });
    Ok(named.collect())
}

/// Ends the uploads in parts that stopped runs have left unfinished. Only who holds the lock of the whole folder may do so.
pub(crate) fn end_unfinished_uploads(target: &BucketFolder) {
    target.end_unfinished(&work(UPLOADS), &WorkNames);
}

/// Removes the uploads of stopped runs.
pub(crate) fn remove_uploads(target: &BucketFolder) -> Result<()> {
    end_unfinished_uploads(target);
    let names = target.entries_in(&work(UPLOADS))?.into_iter().map(|entry| entry.name);
    target.remove_own(names, &WorkNames).map(drop)
}

/// Removes the groups of all jobs, and their records. The record of the job goes first: without it, no process takes a group.
pub(crate) fn remove_groups(target: &BucketFolder) -> Result<()> {
    if let Some((_, version)) = started_version(target)? {
        target.remove_own([work(STARTED)], &StartedRecord(version))?;
    }
    target.end_unfinished(&work(GROUPS), &WorkNames);
    for folder in [STATE, GROUPS] {
        let names = target.entries_in(&work(folder))?.into_iter().map(|entry| entry.name);
        target.remove_own(names, &WorkNames)?;
    }
    Ok(())
}

/// The record of a job that has begun, which was read.
pub(crate) struct StartedRecord(pub(crate) Version);

impl Evidence<BucketFolder> for StartedRecord {
    fn claim(&self, name: &String) -> Claim<Version> {
        if *name == work(STARTED) { Claim::Version(self.0.clone()) } else { Claim::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_carry_a_job_are_its_own() {
        let job = "ab".repeat(32);
        let ours = [
            format!(".fastpack/uploads/{job}-0123456789abcdef/train-00000.arrow"),
            format!(".fastpack/groups/{job}/00000-rows/report.json"),
            format!(".fastpack/state/{job}/00012-rows.lock"),
            format!(".fastpack/state/{job}/decided.json"),
        ];
        assert!(ours.iter().all(|name| job_of(name) == Some(&job)), "{ours:?}");
        let others = [
            format!(".fastpack/uploads/{job}/train-00000.arrow"),
            ".fastpack/uploads/notes-0123456789abcdef/train-00000.arrow".to_owned(),
            format!(".fastpack/groups/{job}/notes.txt"),
            ".fastpack/groups/notes/00000-rows/report.json".to_owned(),
            format!(".fastpack/state/{job}/notes.txt"),
            format!("uploads/{job}-0123456789abcdef/train-00000.arrow"),
            ".fastpack/lock".to_owned(),
        ];
        assert!(others.iter().all(|name| job_of(name).is_none()), "{others:?}");
    }
}
