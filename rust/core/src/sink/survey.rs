//! What lies in an output folder, and whether it is in the way.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::lock::WORK;
use super::manifest::{MANIFEST, Manifest};
use crate::config::Format;
use crate::error::{Error, Result};

/// The name of the file that tells what a run came to.
pub(super) const REPORT: &str = "report.json";

/// The name of the file in the work folder that tells which job was started.
pub(super) const STARTED: &str = "started.json";

/// The files that a message names.
const NAMED: usize = 5;

/// What the shards of all formats begin with, before a number of five digits or more.
const SHARD: &str = "train-";

/// The name of a shard.
pub(super) fn shard_name(number: usize, extension: &str) -> String {
    format!("{SHARD}{number:05}.{extension}")
}

/// Whether this is the name of a shard, of whatever job and format.
fn is_shard(name: &str) -> bool {
    let parts = name.strip_prefix(SHARD).and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(digits, extension)| {
        digits.len() >= 5
            && digits.bytes().all(|digit| digit.is_ascii_digit())
            && Format::ALL.iter().any(|format| format.extension() == extension)
    })
}

/// Whether this is the name of a file that fastpack writes next to the work folder.
pub(super) fn is_ours(name: &str) -> bool {
    is_shard(name) || name == REPORT || name == MANIFEST
}

/// The report of the job, if the folder holds all that it came to.
pub(super) fn finished(dir: &Path, job: &Value) -> Result<Option<String>> {
    match Manifest::read(&dir.join(MANIFEST))? {
        Some(manifest)
            if manifest.differences(job).is_none() && damage(dir, &manifest)?.is_none() =>
        {
            let report = dir.join(REPORT);
            Ok(Some(fs::read_to_string(&report).map_err(Error::io(report))?))
        }
        _ => Ok(None),
    }
}

/// What a finished folder no longer holds as it was written, in words.
fn damage(dir: &Path, manifest: &Manifest) -> Result<Option<String>> {
    let report = std::iter::once((REPORT, None));
    let shards = manifest.files.iter().map(|file| (file.name.as_str(), Some(file.bytes)));
    for (name, bytes) in shards.chain(report) {
        let path = dir.join(name);
        match fs::metadata(&path) {
            Ok(found) if bytes.is_none_or(|bytes| bytes == found.len()) => {}
            Ok(found) => {
                return Ok(Some(format!("`{name}` has changed, to {} bytes", found.len())));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Some(format!("`{name}` is missing")));
            }
            Err(error) => return Err(Error::io(path)(error)),
        }
    }
    Ok(None)
}

/// Fails with [`Error::Output`] unless all that lies in the folder was left by a run of this very job that
/// did not end.
pub(super) fn refuse_others(dir: &Path, job: &Value) -> Result<()> {
    let refuse = |what: String| {
        Err(Error::Output {
            path: dir.to_owned(),
            reason: format!(
                "{what}; pass overwrite=True to replace it, or write to another folder"
            ),
        })
    };
    if let Some(manifest) = Manifest::read(&dir.join(MANIFEST))? {
        if let Some(differences) = manifest.differences(job) {
            return refuse(format!("holds the output of a job that differs in {differences}"));
        }
        if let Some(damage) = damage(dir, &manifest)? {
            return refuse(format!("holds the output of this job, but {damage}"));
        }
    }
    let started = Manifest::read(&dir.join(WORK).join(STARTED))?;
    if let Some(differences) = started.as_ref().and_then(|started| started.differences(job)) {
        return refuse(format!("holds what is left of a job that differs in {differences}"));
    }
    let mut foreign = names(dir)?;
    foreign.retain(|name| started.is_none() || !is_ours(name));
    if foreign.is_empty() {
        return Ok(());
    }
    let more = foreign.len().saturating_sub(NAMED);
    foreign.truncate(NAMED);
    let listed = foreign.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(Error::Output {
        path: dir.to_owned(),
        reason: format!(
            "is not empty: {listed}{more}; write to another folder, or pass overwrite=True to write next to \
             it and replace fastpack's own files"
        ),
    })
}

/// What lies in the folder besides the work folder, sorted.
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io(dir))? {
        let name = entry.map_err(Error::io(dir))?.file_name().to_string_lossy().into_owned();
        if name != WORK {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
