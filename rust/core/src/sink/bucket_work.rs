//! The names in the work folder of a bucket, and its groups as a whole.

use super::files::{GROUPS, STARTED, WORK};
use super::manifest::Manifest;
use crate::error::Result;
use crate::storage::Target;

/// The folder of the states of groups, in the work folder of the bucket.
pub(super) const STATE: &str = "state";

/// A name in the work folder of a bucket.
pub(super) fn work(name: &str) -> String {
    format!("{WORK}/{name}")
}

/// The record of the job that has begun in a bucket.
pub(super) fn started(target: &Target) -> Result<Option<Manifest>> {
    let text = target.read(&work(STARTED))?;
    Ok(text.and_then(|text| Manifest::parse(&text)))
}

/// Removes the groups of all jobs, and what tells of them. The record of the job goes first: without it, no process takes a group.
pub(super) fn remove_groups(target: &Target) -> Result<()> {
    target.remove(&work(STARTED))?;
    for folder in [STATE, GROUPS] {
        let names = target.entries_in(&work(folder))?.into_iter().map(|entry| entry.name);
        target.remove_all(&names.collect::<Vec<_>>())?;
    }
    Ok(())
}
