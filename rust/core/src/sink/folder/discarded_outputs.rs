//! [`discard`]: removes damaged tokens of a cache or of a group, so that they can be made again. [`LockedOutput`] and
//! [`remove_output`] replace finished outputs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::leftovers::Leftovers;
use super::lock::{Lock, refuse_no_folder};
use super::output_survey;
use super::own_files;
use super::renamed_files::remove_folder_of;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::file_names::{LOCK, MANIFEST, REPORT, SPLIT_HASHES, TOKENS, WORK};
use crate::sink::groups::group_files;
use crate::sink::manifest::Manifest;
use crate::util::control::Control;
use crate::util::disk::checksummed_frames::MARK;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{
    Claim, Disk, Evidence, Stamp, exchange, prove, remove_empty, remove_file,
};
use crate::util::disk::sealed;

/// The beginning of a report.
const REPORT_BEGIN: &[u8] = b"{\"fastpack\":";

/// Bytes of a file that tell whether fastpack wrote it.
const BEGIN: u64 = 256;

/// True if the folder `dir`, used by `job` alone, has a manifest, but not all files of `job`.
pub fn is_damaged(dir: &Path, job: &Identity) -> Result<bool> {
    let has_manifest = dir.join(MANIFEST).symlink_metadata().is_ok();
    Ok(has_manifest && output_survey::finished(dir, job)?.is_none())
}

/// True if the folder `dir`, used by `job` alone, is not whole and has a foreign file under the name of one of its files:
/// somebody else's, or one that is damaged beyond recognition.
pub fn is_barred(dir: &Path, job: &Identity) -> Result<bool> {
    let entry = CacheEntryFiles { dir, is_group: false };
    let is_unknown = |name: &&str| {
        let path = dir.join(name);
        Stamp::at(&path).is_some() && prove(&entry, &path).is_none()
    };
    Ok([MANIFEST, REPORT, TOKENS].iter().any(is_unknown)
        && output_survey::finished(dir, job)?.is_none())
}

/// Removes the files of `job` in the folder `dir`, which only this job uses, unless all of them are
/// unchanged.
///
/// One of several calls at a time does it. Returns whether any file was damaged. Files that fastpack does not
/// write there stay.
pub fn discard(dir: &Path, job: &Identity, control: &Control) -> Result<bool> {
    if !regular::is_folder(dir) {
        return Ok(false);
    }
    refuse_no_folder(dir)?;
    let (lock, _) = Lock::take(dir, None, true, control)?;
    if output_survey::finished(dir, job)?.is_some()
        && let Ok(kept) = output_survey::kept(dir)
        && own_files::digest(&kept.tokens, control)?.is_some()
    {
        return Ok(false);
    }
    lock.clear(job, |_| false)?;
    // The manifest goes first: without it, no run takes the other files for whole.
    let entry = CacheEntryFiles { dir, is_group: group_files::is_group(dir) };
    for name in [MANIFEST, REPORT, TOKENS, SPLIT_HASHES] {
        let path = dir.join(name);
        if let Some(proof) = prove(&entry, &path) {
            remove_file(proof).map_err(Error::io(path))?;
        }
    }
    Ok(true)
}

/// A finished output that no other run changes, until this is dropped.
#[derive(Debug)]
pub struct LockedOutput<'a> {
    dir: &'a Path,
    _lock: Lock,
}

impl<'a> LockedOutput<'a> {
    /// Locks the folder `dir`. Waits for a run that writes there if `wait` is true, and fails with [`Error::Busy`] otherwise.
    pub fn take(dir: &'a Path, wait: bool, control: &Control) -> Result<Self> {
        Lock::take(dir, None, wait, control).map(|(lock, _)| Self { dir, _lock: lock })
    }

    /// Fails with [`Error::Output`] if its work folder holds what fastpack did not write: it would be moved away with the old output.
    pub fn refuse_foreign_work(&self) -> Result<()> {
        Leftovers::find(self.dir).map(drop)
    }

    /// Makes the folder `new` beside it, of the same access, unless it is there.
    pub fn create_with_same_access(&self, new: &Path) -> Result<()> {
        match fs::create_dir(new) {
            Ok(()) => {
                let access = self.dir.metadata().map_err(Error::io(self.dir))?.permissions();
                fs::set_permissions(new, access).map_err(Error::io(new))
            }
            Err(_) if regular::is_folder(new) => Ok(()),
            Err(error) => Err(Error::io(new)(error)),
        }
    }

    /// Exchanges it for the finished output in the folder `new`, at once. New files get the access of its manifest.
    pub fn exchange(self, new: &Path) -> Result<()> {
        let access = self.dir.join(MANIFEST).metadata().map_err(Error::io(self.dir))?.permissions();
        for entry in fs::read_dir(new).map_err(Error::io(new))? {
            let path = entry.map_err(Error::io(new))?.path();
            let old = path.file_name().and_then(|name| Stamp::at(&self.dir.join(name)));
            let own = Stamp::at(&path);
            if own.is_some() && own != old {
                fs::set_permissions(&path, access.clone()).map_err(Error::io(path))?;
            }
        }
        exchange(new, self.dir).map_err(Error::io(self.dir))
    }
}

/// Fails with [`Error::Output`] if the folder `dir` holds files that fastpack did not write: the output that is made there takes the
/// place of another, and they would be moved with it. A folder that is not there is no fault.
pub fn refuse_foreign_files(dir: &Path, control: &Control) -> Result<()> {
    if !regular::is_folder(dir) {
        return Ok(());
    }
    refuse_no_folder(dir)?;
    let (_lock, _) = Lock::take(dir, None, true, control)?;
    let (_, whole) = Leftovers::find(dir)?.owned(dir, control)?;
    if whole.others.is_empty() {
        return Ok(());
    }
    Err(output_survey::foreign_files(dir, &whole.others))
}

/// Removes the finished output in the folder `dir`, and moves the files that fastpack did not write there to the folder `others`,
/// where they do not replace any. Shards that the output in `others` has too, as the same files, lose a second name alone, so they
/// are not read. A folder that is not there is no fault.
///
/// The manifest goes last: until then it proves whose the others are. Returns the warning about files that stay, if any.
pub fn remove_output(
    dir: &Path,
    others: Option<&Path>,
    control: &Control,
) -> Result<Option<String>> {
    if !regular::is_folder(dir) {
        return Ok(None);
    }
    refuse_no_folder(dir)?;
    let (lock, _) = Lock::take(dir, None, true, control)?;
    if let Some(others) = others {
        let shared = SharedShards::find(dir, others)?;
        for proof in shared.stamps.keys().filter_map(|path| prove(&shared, path)) {
            remove_file(proof).map_err(Error::io(dir))?;
        }
    }
    let left = Leftovers::find(dir)?;
    let (mut remains, mut whole) = left.owned(dir, control)?;
    remains.discard()?;
    if let Some(started) = &left.started {
        lock.clear(&started.job, |_| false)?;
    }
    let mut left = Vec::new();
    for name in &whole.others {
        // Where `others` has a file of that name, it stays where it is.
        if !others.is_some_and(|others| is_moved(&dir.join(name), &others.join(name))) {
            left.push(dir.join(name).display().to_string());
        }
    }
    whole.discard()?;
    drop(lock);
    // Files that stay keep the folder.
    let _ = remove_empty(dir);
    let left = (!left.is_empty()).then(|| output_survey::listed(&left));
    Ok(left.map(|left| {
        format!(
            "what fastpack did not write, or what has changed since, was kept of the output that was replaced: {left}"
        )
    }))
}

/// Moves a file to `to` if nothing is there, by its folder if it lies in the folder of a split.
fn is_moved(from: &Path, to: &Path) -> bool {
    let made = to.parent().filter(|folder| fs::create_dir(folder).is_ok());
    let is_moved = regular::rename(from, to).is_ok();
    match (is_moved, made) {
        (true, _) => remove_folder_of(from),
        (false, Some(_)) => remove_folder_of(to),
        (false, None) => {}
    }
    is_moved
}

/// True if [`remove_output`] was killed in the folder `dir` after the manifest was gone: it holds nothing, or the lock alone.
pub fn is_emptied(dir: &Path) -> bool {
    let holds_only = |dir: &Path, name: &str| {
        fs::read_dir(dir).is_ok_and(|mut entries| {
            entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == name))
        })
    };
    let work = dir.join(WORK);
    regular::is_folder(dir)
        && holds_only(dir, WORK)
        && (work.symlink_metadata().is_err()
            || regular::is_folder(&work) && holds_only(&work, LOCK))
}

/// The shards of an output that are, under second names, those of another output too.
struct SharedShards {
    stamps: HashMap<PathBuf, Stamp>,
}

impl SharedShards {
    /// The shards of the output in the folder `dir` that the output in the folder `other` has too.
    fn find(dir: &Path, other: &Path) -> Result<Self> {
        let manifest = |dir: &Path| Manifest::read(&dir.join(MANIFEST), Links::Refused);
        let (Some(here), Some(there)) = (manifest(dir)?, manifest(other)?) else {
            return Ok(Self { stamps: HashMap::new() });
        };
        let there = there.files.iter().filter_map(|it| Stamp::at(&other.join(&it.name)));
        let there: HashSet<Stamp> = there.collect();
        let stamped = here.files.iter().filter_map(|it| {
            let path = dir.join(&it.name);
            let stamp = Stamp::at(&path)?;
            there.contains(&stamp).then_some((path, stamp))
        });
        Ok(Self { stamps: stamped.collect() })
    }
}

impl Evidence<Disk> for SharedShards {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        self.stamps.get(path).cloned().map_or(Claim::None, Claim::Version)
    }
}

/// The files of an entry of the cache, whole or damaged: each begins as fastpack writes it, or holds nothing. Those of a group lie in
/// the work folder of its job, where the name is enough.
struct CacheEntryFiles<'a> {
    /// The folder that is named after the job.
    dir: &'a Path,
    is_group: bool,
}

impl Evidence<Disk> for CacheEntryFiles<'_> {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let is_ours = || -> Option<Stamp> {
            let stamp = Stamp::at(path).filter(|_| path.parent() == Some(self.dir))?;
            let mut begin = Vec::new();
            let file = regular::open(path, Links::Refused).ok()?;
            file.take(BEGIN).read_to_end(&mut begin).ok()?;
            let is_marked = match path.file_name()?.to_str()? {
                MANIFEST => sealed::begin_as_sealed(&begin),
                TOKENS => begin.starts_with(MARK),
                REPORT => sealed::begin_as_sealed(&begin) || begin.starts_with(REPORT_BEGIN),
                _ => false,
            };
            (begin.is_empty() || is_marked || self.is_group).then_some(stamp)
        };
        is_ours().map_or(Claim::None, Claim::Version)
    }
}
