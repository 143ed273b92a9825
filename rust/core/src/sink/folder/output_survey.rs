//! Examines an output folder: finished outputs, kept tokens, and files that are in the way.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::leftovers::Leftovers;
use super::own_files;
use crate::config::Split;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::report::listed_path::ListedPath;
use crate::sink::file_names::{MANIFEST, REPORT, TOKENS, is_shard_of};
use crate::sink::manifest::{Manifest, TokensFile, WrittenShard};
use crate::sink::shards::folder_layout::{FolderLayout, split_of};
use crate::util::control::Control;
use crate::util::disk::checksummed_frames::ChecksummedFrames;
use crate::util::disk::hex_hash::HexHash;
use crate::util::disk::inside_folder::FolderBounds;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::wording::{Message, message, set};

/// The most files that a message names.
const NAMED: usize = 5;

/// True if a file of this name is in the way of a run: the run may write it, or readers would take it for a
/// shard.
pub(crate) fn is_in_the_way(name: &str, arrangement: FolderLayout) -> bool {
    [REPORT, MANIFEST, TOKENS].contains(&name)
        || Split::ALL.into_iter().any(|split| is_shard_of(split, name))
        || arrangement.places(name)
}

/// The report of the job, if the folder holds all of its files.
pub(crate) fn finished(dir: &Path, job: &Identity) -> Result<Option<String>> {
    Ok(whole(dir, job)?.map(|(_, report)| report))
}

/// The manifest of the job and its report, if the folder holds all of its files.
pub(crate) fn whole(dir: &Path, job: &Identity) -> Result<Option<(Manifest, String)>> {
    let links = Links::Refused;
    match Manifest::read(&dir.join(MANIFEST), links)? {
        Some(manifest)
            if manifest.job.differences(job).is_none()
                && damage(dir, &manifest, links)?.is_none() =>
        {
            Ok(Some((manifest, read_report(dir, links)?)))
        }
        _ => Ok(None),
    }
}

/// [`whole`], with the shards and tokens compared by their hashes too: an old folder may have been damaged since it was
/// written.
pub(crate) fn unchanged(
    dir: &Path,
    job: &Identity,
    control: &Control,
) -> Result<Option<(Manifest, String)>> {
    let Some((manifest, report)) = whole(dir, job)? else { return Ok(None) };
    Ok(has_hashes(dir, &manifest, control)?.then_some((manifest, report)))
}

/// True if a folder holds the files that a manifest lists: small ones by their hashes, shards and tokens by their sizes, and with
/// `hashed` by their hashes too.
pub(crate) fn holds_files(
    dir: &Path,
    manifest: &Manifest,
    hashed: bool,
    control: &Control,
) -> Result<bool> {
    Ok(damage(dir, manifest, Links::Refused)?.is_none()
        && (!hashed || has_hashes(dir, manifest, control)?))
}

/// True if the shards and tokens of a folder have the hashes that a manifest lists.
fn has_hashes(dir: &Path, manifest: &Manifest, control: &Control) -> Result<bool> {
    for WrittenShard { name, bytes, blake3, .. } in &manifest.files {
        if !own_files::is_whole(&dir.join(name), *bytes, blake3, control)? {
            return Ok(false);
        }
    }
    manifest.tokens.as_ref().map_or(Ok(true), |it| has_digest(&dir.join(TOKENS), it, control))
}

/// True if a file of kept tokens is the one that a manifest lists.
pub(crate) fn has_digest(path: &Path, tokens: &TokensFile, control: &Control) -> Result<bool> {
    let digest = own_files::digest(path, control)?;
    Ok(digest.is_some_and(|digest| digest.to_hex().as_str() == tokens.blake3))
}

/// The hash of a file of kept tokens, in hexadecimal, as manifests record it; `None` if the file is damaged.
pub fn tokens_hash(path: &Path, control: &Control) -> Result<Option<String>> {
    // A downloaded folder may consist of links.
    let path = path.canonicalize().map_err(Error::io(path))?;
    Ok(own_files::digest(&path, control)?.map(|digest| digest.to_hex().to_string()))
}

/// The identity of the finished job of a folder, if it has one. Fails with [`Error::Output`] if its manifest has changed.
pub fn finished_job(dir: &Path) -> Result<Option<Arc<Identity>>> {
    let manifest = manifest_of(dir)?;
    Ok(manifest.map(|manifest| manifest.job))
}

/// The identity of the finished job in the text of a manifest; `None` if fastpack did not write it, or it has changed.
pub fn finished_in(text: &[u8]) -> Option<Arc<Identity>> {
    Manifest::parse(text).map(|manifest| manifest.job)
}

/// The manifest of a folder that is read alone; fails with [`Error::Output`] if it has changed.
fn manifest_of(dir: &Path) -> Result<Option<Manifest>> {
    let path = dir.join(MANIFEST);
    // Nothing is written here, and a downloaded folder may consist of links.
    let manifest = Manifest::read(&path, Links::Followed)?;
    // A link to nowhere is one too.
    if manifest.is_none() && path.symlink_metadata().is_ok() {
        let fault = Manifest::fault_of_version(dir, MANIFEST, Links::Followed)?;
        let fault = fault
            .unwrap_or_else(|| format!("holds a `{MANIFEST}` that is not as fastpack wrote it"));
        let reason = format!("{fault}; pack the files again");
        return Err(Error::output(dir, reason));
    }
    Ok(manifest)
}

fn read_report(dir: &Path, links: Links) -> Result<String> {
    let path = dir.join(REPORT);
    let read = regular::open(&path, links).and_then(io::read_to_string);
    read.map_err(Error::io(path))
}

/// The kept tokens of a finished job.
#[derive(Debug)]
pub struct KeptTokens {
    /// The file that holds them.
    pub tokens: PathBuf,
    /// The number of blocks in it. They are numbered from 0.
    pub blocks: u64,
    /// The identity of the job.
    pub job: Arc<Identity>,
    /// The report of the job, as JSON.
    pub report: String,
}

/// The tokens that are kept in the folder `dir`; fails with [`Error::Output`] if there are none.
pub fn kept(dir: &Path) -> Result<KeptTokens> {
    let refused = |reason: Message| Err(Error::output(dir, reason));
    fs::metadata(dir).map_err(Error::io(dir))?;
    let links = Links::Followed;
    let found = manifest_of(dir)?.and_then(|manifest| Some((manifest.tokens.clone()?, manifest)));
    let Some((tokens, manifest)) = found else {
        return refused(message![
            "holds no tokens; a job with ",
            set("keep_tokens", true),
            " keeps them",
        ]);
    };
    // Its shards are not used.
    if let Some(damage) = damage_of(dir, kept_files(&manifest), links)? {
        return refused(format!("cannot be packed again: {}", damage.words).into());
    }
    let path = dir.join(TOKENS);
    let frames = regular::open(&path, links).and_then(|file| ChecksummedFrames::scan(&file));
    let frames = frames.map_err(Error::io(&*path))?;
    if frames.end != tokens.bytes || frames.digest.to_hex().as_str() != tokens.blake3 {
        return refused(format!("cannot be packed again: `{TOKENS}` has changed").into());
    }
    let report = read_report(dir, links)?;
    Ok(KeptTokens { tokens: path, blocks: tokens.blocks, job: manifest.job, report })
}

/// A finished output, to which files are appended.
#[derive(Debug)]
pub struct FinishedOutput {
    dir: PathBuf,
    manifest: Manifest,
    report: String,
}

impl FinishedOutput {
    /// The identity of its job.
    pub fn job(&self) -> &Arc<Identity> {
        &self.manifest.job
    }

    /// True if the folder keeps the tokens of its documents.
    pub fn keeps_tokens(&self) -> bool {
        self.manifest.tokens.is_some()
    }

    /// The name of the job whose output it has replaced, if it has grown by appended files.
    pub fn replaced(&self) -> Option<&str> {
        self.manifest.replaced.as_deref()
    }

    /// The report of its job, as JSON.
    pub fn report(&self) -> &str {
        &self.report
    }

    /// A hash of the content of each input, by its path.
    pub fn content(&self) -> &BTreeMap<ListedPath, HexHash> {
        &self.manifest.content
    }

    /// The counts from which its report was made, if it keeps them.
    pub fn counts(&self) -> Option<&Value> {
        self.manifest.counts.as_ref()
    }

    /// Fails with [`Error::Output`] if its folder has a file under the name of a shard that is not one of its own: a later shard
    /// may get that name.
    pub fn refuse_foreign_shards(&self) -> Result<()> {
        let dir = &self.dir;
        let mut foreign = Vec::new();
        for entry in fs::read_dir(dir).map_err(Error::io(dir))? {
            let name = entry.map_err(Error::io(dir))?.file_name().to_string_lossy().into_owned();
            let is_own = self.manifest.files.iter().any(|file| file.name == name);
            if !is_own && Split::ALL.into_iter().any(|split| is_shard_of(split, &name)) {
                foreign.push(name);
            }
        }
        foreign.sort_unstable();
        if foreign.is_empty() {
            return Ok(());
        }
        Err(foreign_files(dir, &foreign))
    }

    /// Fails with [`Error::Output`] if a shard was written to after the manifest, and has another hash than it had then. Older
    /// ones are not read, so that an append does not cost a pass over all rows.
    pub fn refuse_changed_shards(&self, control: &Control) -> Result<()> {
        let written = |path: &Path| path.symlink_metadata().and_then(|found| found.modified());
        let manifest = self.dir.join(MANIFEST);
        let finished = written(&manifest).map_err(Error::io(&*manifest))?;
        let mut changed = Vec::new();
        for WrittenShard { name, bytes, blake3, .. } in &self.manifest.files {
            control.tick()?;
            let path = self.dir.join(name);
            if written(&path).map_err(Error::io(&*path))? >= finished
                && !own_files::is_whole(&path, *bytes, blake3, control)?
            {
                changed.push(name.clone());
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let changed = listed(&changed);
        let reason = format!(
            "cannot be appended to: shards have changed since they were packed: {changed}; put them back, or pack all files again"
        );
        Err(Error::output(&self.dir, reason))
    }

    /// Its shards of a split, in order.
    pub(crate) fn shards(&self, split: Split) -> Vec<(PathBuf, WrittenShard)> {
        let shards = self.manifest.files.iter().filter(|it| split_of(&it.name) == split);
        shards.map(|it| (self.dir.join(&it.name), it.clone())).collect()
    }
}

/// The finished output in the folder `dir`; fails with [`Error::Output`] if there is none, or a file of it is missing or has
/// another size.
pub fn finished_output(dir: &Path) -> Result<FinishedOutput> {
    fs::metadata(dir).map_err(Error::io(dir))?;
    let Some(manifest) = manifest_of(dir)? else {
        let reason = "holds no finished output of fastpack; pack files into it first";
        return Err(Error::output(dir, reason));
    };
    if let Some(damage) = damage(dir, &manifest, Links::Refused)? {
        let reason = format!("cannot be appended to: {}", damage.words);
        return Err(Error::output(dir, reason));
    }
    let report = read_report(dir, Links::Refused)?;
    Ok(FinishedOutput { dir: dir.to_owned(), manifest, report })
}

/// A file of a finished folder that is missing or has changed.
struct DamagedFile {
    words: String,
    /// True if the file exists with another content, so that it may belong to somebody else.
    changed: bool,
}

/// The first file of a finished folder that is missing or has changed. Shards and tokens are checked by size,
/// small files by hash.
fn damage(dir: &Path, manifest: &Manifest, links: Links) -> Result<Option<DamagedFile>> {
    let shards = manifest.files.iter().map(|file| (file.name.as_str(), file.bytes, None));
    damage_of(dir, shards.chain(kept_files(manifest)), links)
}

/// All files of a finished folder but its shards: their names, sizes, and the hashes of small ones.
fn kept_files(manifest: &Manifest) -> impl Iterator<Item = (&str, u64, Option<&str>)> {
    let tokens = manifest.tokens.iter().map(|tokens| (TOKENS, tokens.bytes, None));
    let metadata_files = manifest
        .metadata_files
        .iter()
        .map(|it| (it.name.as_str(), it.bytes, Some(it.blake3.as_str())));
    tokens.chain(metadata_files)
}

/// The first of some files of a finished folder that is missing or has changed.
fn damage_of<'a>(
    dir: &Path,
    files: impl Iterator<Item = (&'a str, u64, Option<&'a str>)>,
    links: Links,
) -> Result<Option<DamagedFile>> {
    let bounds = match links {
        Links::Followed => Some(FolderBounds::of(dir).map_err(Error::io(dir))?),
        Links::Refused => None,
    };
    for (name, bytes, hash) in files {
        let path = dir.join(name);
        let found = match &bounds {
            Some(bounds) if bounds.path_of(Path::new(name)).is_none() => {
                let words = format!("`{name}` is a link that leads out of the folder");
                return Ok(Some(DamagedFile { words, changed: true }));
            }
            Some(_) => path.metadata(),
            None => path.symlink_metadata(),
        };
        let changed = match found {
            Ok(found) if !found.is_file() => "is no regular file".to_owned(),
            Ok(found) if found.len() != bytes => {
                format!("has changed, to {} bytes", found.len())
            }
            Ok(_) if hash.map_or(Ok(true), |hash| holds(&path, hash, links))? => continue,
            Ok(_) => "has changed".to_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Some(DamagedFile {
                    words: format!("`{name}` is missing"),
                    changed: false,
                }));
            }
            Err(error) => return Err(Error::io(path)(error)),
        };
        return Ok(Some(DamagedFile { words: format!("`{name}` {changed}"), changed: true }));
    }
    Ok(None)
}

/// True if a small file has the hash `expected`.
fn holds(path: &Path, expected: &str, links: Links) -> Result<bool> {
    let mut bytes = Vec::new();
    let read = regular::open(path, links).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(Error::io(path))?;
    Ok(blake3::hash(&bytes).to_hex().as_str() == expected)
}

/// Fails with [`Error::Output`] if the folder holds a finished output of any job, or leftovers of another
/// job.
pub(crate) fn refuse_other_jobs(dir: &Path, job: &Identity, left: &Leftovers) -> Result<()> {
    let refuse = |what: String| {
        let overwrite = set("exists", "overwrite");
        let reason =
            message![what, "; pass ", overwrite, " to replace it, or write to another folder"];
        Err(Error::output(dir, reason))
    };
    if let Some(manifest) = Manifest::read(&dir.join(MANIFEST), Links::Refused)? {
        if let Some(differences) = manifest.job.differences(job) {
            return refuse(format!("holds the output of a job that differs in {differences}"));
        }
        return match damage(dir, &manifest, Links::Refused)? {
            Some(DamagedFile { words, changed: false }) => {
                refuse(format!("holds the output of this job, but {words}"))
            }
            Some(DamagedFile { words, changed: true }) => {
                let reason = message![
                    format!("holds the output of this job, but {words}; move it away and pass "),
                    set("exists", "overwrite"),
                    ", or write to another folder",
                ];
                Err(Error::output(dir, reason))
            }
            // A finished output of the same job is found before, unless the job has no identity.
            None => {
                let unknown =
                    if job.made_by.as_ref().is_none_or(|made_by| made_by.transform.is_none()) {
                        "it was of the same records"
                    } else {
                        "its records and functions were the same"
                    };
                refuse(format!(
                    "holds the output of a job with the same options, and whether {unknown} cannot be told"
                ))
            }
        };
    }
    match left.started.as_ref().and_then(|started| started.job.differences(job)) {
        Some(differences) => {
            refuse(format!("holds what is left of a job that differs in {differences}"))
        }
        None => Ok(()),
    }
}

/// Fails with [`Error::Output`] if there are `others`: files in the folder that fastpack did not write.
pub(crate) fn refuse_all(dir: &Path, others: &[String], arrangement: FolderLayout) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    refuse_other_version(dir)?;
    let fault = format!("is not empty: {}; write to another folder, or ", listed(others));
    let reason = if others.iter().any(|name| is_in_the_way(name, arrangement)) {
        message![fault, "move them away"]
    } else {
        message![fault, "pass ", set("exists", "overwrite"), " to write next to them"]
    };
    Err(Error::output(dir, reason))
}

/// Fails with [`Error::Output`] if another version of fastpack wrote the manifest of the folder.
fn refuse_other_version(dir: &Path) -> Result<()> {
    Manifest::fault_of_version(dir, MANIFEST, Links::Refused)?.map_or(Ok(()), |fault| {
        Err(Error::output(dir, format!("{fault}; write to another folder, or move it away")))
    })
}

/// Fails with [`Error::Output`] if there are files `in_the_way` that fastpack did not write.
pub(crate) fn refuse_in_the_way(dir: &Path, in_the_way: &[String]) -> Result<()> {
    if in_the_way.is_empty() {
        return Ok(());
    }
    refuse_other_version(dir)?;
    let reason = message![
        format!(
            "holds what fastpack did not write, or what has changed since: {}; ",
            listed(in_the_way)
        ),
        set("exists", "overwrite"),
        " replaces fastpack's own files alone: move them away, or write to another folder",
    ];
    Err(Error::output(dir, reason))
}

/// The error for a folder that holds files that fastpack did not write.
pub(super) fn foreign_files(dir: &Path, names: &[String]) -> Error {
    let reason = format!("holds what fastpack did not write: {}; move them away", listed(names));
    Error::output(dir, reason)
}

/// A list of names, cut to a bounded length.
pub(super) fn listed(names: &[String]) -> String {
    let first = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    first.join(", ") + &more
}
