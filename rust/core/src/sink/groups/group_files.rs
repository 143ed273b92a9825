//! The names of the folders and files of the groups of a job, and their removal.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sink::file_names::{
    BEGUN, GROUPS, GROUPS_REMOVED, MANIFEST, SHARDS, TOKENS, WORK, number_of_shard,
};
use crate::sink::manifest::Manifest;
use crate::sink::work_names::{WrittenNames, is_of_any_job};
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{
    Claim, Disk, Evidence, Stamp, Temporary, prove, remove_empty, remove_file,
};
use crate::util::start_thread::FILE_THREADS;
use crate::util::threads_in_order::ordered;

/// The ending of the file that says why a group failed.
pub(crate) const FAILED: &str = "failed.json";

/// The name of the file with the decisions of the job.
pub(crate) const DECIDED: &str = "decided.json";

/// The ending of the lock of a group in a step.
pub(crate) const LOCK_ENDING: &str = ".lock";

/// The ending of a file of a group that was downloaded from a bucket.
pub(crate) const FETCHED_ENDING: &str = ".fetched";

/// The ending of a file while it is downloaded.
pub(crate) const NEW_ENDING: &str = ".new";

/// The ending of the record of a group that has finished a step.
pub(crate) const RECORD_ENDING: &str = ".json";

/// The error that ended the last run of a group.
#[derive(Serialize, Deserialize)]
pub(crate) struct GroupFailure {
    /// The message.
    pub(crate) error: String,
}

/// The name of the folder of a group in a step.
pub(crate) fn folder_name(group: u64, step: &str) -> String {
    format!("{group:05}-{step}")
}

/// The name of the lock of a group in a step.
pub(crate) fn lock_name(group: u64, step: &str) -> String {
    format!("{}{LOCK_ENDING}", folder_name(group, step))
}

/// The name of the record of a group that has finished a step.
pub(crate) fn record_name(group: u64, step: &str) -> String {
    format!("{}{RECORD_ENDING}", folder_name(group, step))
}

/// The name of the record of the error that ended the last run of a group.
pub(crate) fn failed_name(group: u64) -> String {
    folder_name(group, FAILED)
}

/// The number of a group, and the step or [`FAILED`], by the name of an entry of the folder of groups.
pub(crate) fn parse(name: &str) -> Option<(u64, &str)> {
    let (number, step) = name.split_once('-')?;
    let is_number = number.len() >= 5 && number.bytes().all(|digit| digit.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, step))
}

/// True if this is the name of a file while it is downloaded.
fn is_new(name: &str) -> bool {
    let stem = name.strip_suffix(NEW_ENDING).and_then(|stem| stem.rsplit_once('.'));
    stem.is_some_and(|(_, own)| {
        own.contains('-') && own.bytes().all(|it| it == b'-' || it.is_ascii_digit())
    })
}

/// The folder of the groups in the work folder `work`.
pub(crate) fn folder(work: &Path) -> PathBuf {
    work.join(GROUPS)
}

/// The files of groups in the work folder of a job, by their names. Their users have the lock of that folder, or share it.
pub(crate) struct GroupFiles;

impl Evidence<Disk> for GroupFiles {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let names: Vec<&str> = path.iter().rev().take(5).filter_map(OsStr::to_str).collect();
        let is_groups = |name: &str| [GROUPS, GROUPS_REMOVED].contains(&name);
        let is_group = |name: &str| parse(name).is_some();
        let is_ours = match *names {
            [name, groups, WORK, ..] if is_groups(groups) => match parse(name) {
                Some((_, step)) => {
                    let endings = [LOCK_ENDING, RECORD_ENDING, FETCHED_ENDING, NEW_ENDING];
                    endings.iter().any(|it| step.ends_with(it))
                }
                None => name.starts_with(DECIDED),
            },
            [name, WORK, group, groups, WORK] if is_groups(groups) && is_group(group) => {
                path.parent().is_some_and(|work| WrittenNames::of_any_job(work).has(name))
            }
            _ => false,
        };
        if is_ours && Stamp::at(path).is_some() { Claim::Name } else { Claim::None }
    }
}

/// True if this is the folder of a group in the work folder of its job.
pub(crate) fn is_group(folder: &Path) -> bool {
    let names: Vec<&str> = folder.iter().rev().take(3).filter_map(OsStr::to_str).collect();
    matches!(*names, [name, GROUPS | GROUPS_REMOVED, WORK] if parse(name).is_some())
}

/// The files that the manifest of a group lists, in its folder, and the manifest. That folder lies in the work folder of the job,
/// whose damaged files are made again: the name is enough.
pub(crate) struct ListedInGroup(HashSet<PathBuf>);

impl ListedInGroup {
    /// The files that `manifest` lists, in the folder of its group.
    pub(crate) fn by(manifest: &Manifest, folder: &Path) -> Self {
        Self(manifest.names().chain([MANIFEST]).map(|name| folder.join(name)).collect())
    }

    /// The files that the manifests in the folder of a group list.
    fn of(folder: &Path) -> Self {
        // A run may have been killed while it placed its files.
        let manifests = [folder, &folder.join(WORK)].map(|dir| {
            let manifest = Manifest::read(&dir.join(MANIFEST), Links::Refused);
            manifest.ok().flatten()
        });
        let names = manifests.iter().flatten().flat_map(Manifest::names);
        Self(names.map(|name| folder.join(name)).collect())
    }
}

impl Evidence<Disk> for ListedInGroup {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        if self.0.contains(path) && Stamp::at(path).is_some() { Claim::Name } else { Claim::None }
    }
}

/// Removes the files of a group that have changed since its manifest listed them, and their names from the names of files that are
/// not known as fastpack's.
pub(crate) fn remove_changed(folder: &Path, others: &mut Vec<String>) {
    if others.is_empty() || !is_group(folder) {
        return;
    }
    let listed = ListedInGroup::of(folder);
    others.retain(|name| {
        let proof = prove(&listed, &folder.join(name));
        !proof.is_some_and(|proof| remove_file(proof).is_ok_and(|stays| !stays))
    });
}

/// Writes a small file of the groups whole, or not at all, over one of them if there is one.
pub(crate) fn write_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let (new, mut file) = Temporary::named(path, NEW_ENDING)?;
    file.write_all(text)?;
    file.sync_all()?;
    new.persist(path, &GroupFiles)
}

/// Removes a file of the groups. A file that cannot be removed does no harm, and has nobody to be reported to.
pub(crate) fn remove_own(path: &Path) {
    if let Some(proof) = prove(&GroupFiles, &path.to_owned()) {
        let _ = remove_file(proof);
    }
}

/// Removes the folder of the groups from the work folder `work`. Files that fastpack does not write there stay.
pub(crate) fn remove(work: &Path) {
    let (groups, removed) = (work.join(GROUPS), work.join(GROUPS_REMOVED));
    // In one step, so that no run takes a part of the groups for all of them.
    if regular::is_folder(&groups) && regular::rename(&groups, &removed).is_err() {
        return;
    }
    if !regular::is_folder(&removed) {
        return;
    }
    let mut entries = fs::read_dir(&removed).into_iter().flatten().flatten();
    let remove = |entry: DirEntry| {
        let path = entry.path();
        let is_group = entry.file_name().to_str().is_some_and(|name| parse(name).is_some());
        if is_group && regular::is_folder(&path) {
            remove_group(&path);
        } else {
            remove_own(&path);
        }
        Ok::<_, Infallible>(())
    };
    let Ok(()) = ordered(FILE_THREADS, || Ok(entries.next()), || remove, Ok);
    if remove_empty(&removed).is_err() && !regular::is_folder(&groups) {
        // The files that stay are somebody else's, and keep their names.
        let _ = regular::rename(&removed, &groups);
    }
}

/// Removes the folder of a group, as far as its files are fastpack's: those of its work folder, and those that its manifest
/// lists.
pub(crate) fn remove_group(folder: &Path) {
    if !is_group(folder) {
        return;
    }
    let ListedInGroup(mut listed) = ListedInGroup::of(folder);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    if listed.is_empty() {
        // Its manifest is damaged. Shards are numbered from 0 on.
        let names: Vec<&String> =
            names.iter().filter(|it| *it == TOKENS || is_of_any_job(it)).collect();
        let shards = names.iter().filter(|name| number_of_shard(name).is_some()).count();
        let found = names.iter().filter(|name| number_of_shard(name).is_none_or(|it| it < shards));
        listed.extend(found.map(|name| folder.join(name)));
    }
    // A killed process has not downloaded them whole.
    listed.extend(names.iter().filter(|name| is_new(name)).map(|name| folder.join(name)));
    let own = folder.join(MANIFEST);
    listed.insert(own.clone());
    let listed = ListedInGroup(listed);
    // The manifest goes last: until then, it says whose the other files are.
    let files = listed.0.iter().filter(|path| **path != own).chain([&own]);
    for proof in files.filter_map(|path| prove(&listed, path)) {
        let _ = remove_file(proof);
    }
    let work = folder.join(WORK);
    if regular::is_folder(&work) {
        let entries = fs::read_dir(&work).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        // The records of shards say which of them are fastpack's.
        paths.sort_unstable_by_key(|path| [BEGUN, SHARDS].iter().any(|name| path.ends_with(name)));
        for path in &paths {
            remove_own(path);
        }
        let _ = remove_empty(&work);
    }
    let _ = remove_empty(folder);
}
