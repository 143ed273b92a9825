//! The names of the folders and files of the groups of a job, and their removal.

use std::convert::Infallible;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{GROUPS, GROUPS_REMOVED, TOKENS, WORK};
use super::leftovers::is_of_any_job;
use crate::ordered::ordered;
use crate::regular;
use crate::threads::WAITING;

/// The ending of the file that says why a group failed.
pub(super) const FAILED: &str = "failed.json";

/// The name of the file with what all groups have decided together.
pub(super) const DECIDED: &str = "decided.json";

/// The ending of the lock of a group, where the output is in a bucket.
pub(super) const LOCK_ENDING: &str = ".lock";

/// The ending of a file of a group that was downloaded from a bucket.
pub(super) const FETCHED_ENDING: &str = ".fetched";

/// The ending of a file while it is downloaded.
pub(super) const NEW_ENDING: &str = ".new";

/// The error that ended the last run of a group.
#[derive(Serialize, Deserialize)]
pub(super) struct Failed {
    /// The message.
    pub(super) error: String,
}

/// The name of the folder of a group in a step.
pub(super) fn folder_name(group: u64, step: &str) -> String {
    format!("{group:05}-{step}")
}

/// The number of a group, and the step or [`FAILED`], by the name of an entry of the folder of groups.
pub(super) fn parse(name: &str) -> Option<(u64, &str)> {
    let (number, step) = name.split_once('-')?;
    let is_number = number.len() >= 5 && number.bytes().all(|digit| digit.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, step))
}

/// The folder of the groups in the work folder `work`.
pub(super) fn folder(work: &Path) -> PathBuf {
    work.join(GROUPS)
}

/// Removes the folder of the groups from the work folder `work`. Files that fastpack does not write there stay.
pub(super) fn remove(work: &Path) {
    let (groups, removed) = (work.join(GROUPS), work.join(GROUPS_REMOVED));
    // In one step, so that no run takes a part of the groups for all of them.
    if regular::is_folder(&groups) && fs::rename(&groups, &removed).is_err() {
        return;
    }
    if !regular::is_folder(&removed) {
        return;
    }
    let mut entries = fs::read_dir(&removed).into_iter().flatten().flatten();
    let remove = |entry: DirEntry| {
        remove_entry(&entry);
        Ok::<_, Infallible>(())
    };
    let Ok(()) = ordered(WAITING, || Ok(entries.next()), || remove, Ok);
    let _ = fs::remove_dir(&removed);
}

/// Removes an entry of the folder of groups, as far as fastpack wrote it. What cannot be removed does no harm, and has nobody to be
/// reported to.
fn remove_entry(entry: &DirEntry) {
    let (path, name) = (entry.path(), entry.file_name());
    match name.to_str().and_then(parse) {
        Some((_, FAILED)) => drop(fs::remove_file(&path)),
        Some((_, step))
            if [LOCK_ENDING, FETCHED_ENDING, NEW_ENDING].iter().any(|it| step.ends_with(it)) =>
        {
            drop(fs::remove_file(&path));
        }
        Some(_) if regular::is_folder(&path) => remove_group(&path),
        None if name.to_str().is_some_and(|it| it.starts_with(DECIDED)) => {
            drop(fs::remove_file(&path));
        }
        _ => {}
    }
}

/// Removes the folder of a group, as far as fastpack wrote what is in it.
pub(super) fn remove_group(folder: &Path) {
    remove_files(&folder.join(WORK));
    remove_files(folder);
}

/// Removes the files of a group from a folder, and the folder if it is empty then.
fn remove_files(folder: &Path) {
    if !regular::is_folder(folder) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours =
            entry.file_name().to_str().is_some_and(|it| it == TOKENS || is_of_any_job(it));
        if is_ours && entry.file_type().is_ok_and(|it| it.is_file()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}
