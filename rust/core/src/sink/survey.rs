//! What lies in an output folder, and whether it is in the way.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::arrangement::{self, Arrangement};
use super::lock::WORK;
use super::manifest::{MANIFEST, Manifest};
use super::shard_list::ShardList;
use crate::config::{Format, Split};
use crate::error::{Error, Result};

/// The name of the file that tells what a run came to.
pub(super) const REPORT: &str = "report.json";

/// The name of the file in the work folder that tells which job was started.
pub(super) const STARTED: &str = "started.json";

/// The files that a message names.
const NAMED: usize = 5;

/// The name of the file in the work folder that blocks are written to as they are finished.
pub(super) const BLOCKS: &str = "blocks";

/// The name under which that file is kept, where it is.
pub(super) const TOKENS: &str = "tokens.fastpack";

/// The name of a shard: the split that it is of, and a number of five digits or more.
pub(super) fn shard_name(split: Split, number: usize, extension: &str) -> String {
    format!("{}-{number:05}.{extension}", split.name())
}

/// Whether this is the name of a shard of `split`, of whatever job and format.
pub(super) fn is_shard_of(split: Split, name: &str) -> bool {
    let number = name.strip_prefix(split.name()).and_then(|rest| rest.strip_prefix('-'));
    let parts = number.and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(digits, extension)| {
        digits.len() >= 5
            && digits.bytes().all(|digit| digit.is_ascii_digit())
            && Format::ALL.iter().any(|format| format.extension() == extension)
    })
}

/// Whether this is the name of a file that fastpack writes next to the work folder.
pub(super) fn is_ours(name: &str) -> bool {
    Split::ALL.into_iter().any(|split| is_shard_of(split, name))
        || [REPORT, MANIFEST, TOKENS].contains(&name)
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

/// Tokens that a finished job kept.
#[derive(Debug)]
pub struct Kept {
    /// The file that holds them.
    pub tokens: PathBuf,
    /// How many blocks it holds, numbered from 0.
    pub blocks: u64,
    /// The identity of the job.
    pub job: Value,
    /// What the job came to, as JSON.
    pub report: String,
}

/// The tokens that are kept in the folder `dir`; fails with [`Error::Output`] if there are none.
pub fn kept(dir: &Path) -> Result<Kept> {
    let refused = |reason: String| Err(Error::Output { path: dir.to_owned(), reason });
    fs::metadata(dir).map_err(Error::io(dir))?;
    let manifest = Manifest::read(&dir.join(MANIFEST))?;
    let found = manifest.and_then(|manifest| Some((manifest.tokens.clone()?, manifest)));
    let Some((tokens, manifest)) = found else {
        let reason = "holds no tokens; pack_dir(keep_tokens=True) keeps them".to_owned();
        return refused(reason);
    };
    if let Some(damage) = damage(dir, &manifest)? {
        return refused(format!("cannot be packed again: {damage}"));
    }
    let report = dir.join(REPORT);
    let report = fs::read_to_string(&report).map_err(Error::io(report))?;
    Ok(Kept { tokens: dir.join(TOKENS), blocks: tokens.blocks, job: manifest.job, report })
}

/// What a run of this very job left behind that did not end, if there was one.
pub(super) fn started(dir: &Path, job: &Value) -> Result<Option<Manifest>> {
    Ok(left(dir)?.filter(|left| left.differences(job).is_none()))
}

/// What a run of whatever job left behind that did not end, with the shards that are whole.
fn left(dir: &Path) -> Result<Option<Manifest>> {
    let work = dir.join(WORK);
    let started = Manifest::read(&work.join(STARTED))?;
    started
        .map(|started| Ok(Manifest { files: ShardList::of(&work).read()?, ..started }))
        .transpose()
}

/// What a finished folder no longer holds as it was written, in words.
fn damage(dir: &Path, manifest: &Manifest) -> Result<Option<String>> {
    let report = std::iter::once((REPORT, None));
    let shards = manifest.files.iter().map(|file| (file.name.as_str(), Some(file.bytes)));
    let tokens = manifest.tokens.iter().map(|tokens| (TOKENS, Some(tokens.bytes)));
    let beside = manifest.beside.iter().map(|name| (name.as_str(), None));
    for (name, bytes) in shards.chain(beside).chain(tokens).chain(report) {
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
pub(super) fn refuse_others(dir: &Path, job: &Value, arrangement: Arrangement) -> Result<()> {
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
        // Such a one is found before, unless nothing tells what a job packs.
        let unknown = match &job["transform"] {
            Value::Null => "it was of the same records",
            _ => "its records and functions were the same",
        };
        return refuse(format!(
            "holds the output of a job with the same options, and whether {unknown} cannot be told"
        ));
    }
    let started = left(dir)?;
    if let Some(differences) = started.as_ref().and_then(|started| started.differences(job)) {
        return refuse(format!("holds what is left of a job that differs in {differences}"));
    }
    let mut foreign = names(dir)?;
    if let Some(started) = started {
        let placed = arrangement.place(&started.files);
        let is_placed = |name: &String| {
            is_ours(name)
                || started.beside.contains(name)
                || placed.iter().any(|file| file.name == *name)
        };
        foreign.retain(|name| !is_placed(name));
    }
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

/// What lies in the folder besides the work folder, sorted; of folders named after splits, what lies in them.
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in entries(dir)? {
        let inner = dir.join(&name);
        if arrangement::names().contains(&name.as_str()) && inner.is_dir() {
            names.extend(entries(&inner)?.into_iter().map(|inside| format!("{name}/{inside}")));
        } else if name != WORK {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn entries(dir: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir).map_err(Error::io(dir))?;
    let name = |entry: io::Result<fs::DirEntry>| {
        Ok(entry.map_err(Error::io(dir))?.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}
