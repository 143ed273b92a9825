//! [`OwnFiles`]: the files in an output folder that fastpack wrote, recognised by their content.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::lock::WorkFiles;
use super::renamed_files::remove_folder_of;
use crate::error::{Error, Result};
use crate::sink::file_names;
use crate::sink::file_names::{MANIFEST, REPLACED, TOKENS};
use crate::sink::manifest::{Manifest, SizedFile};
use crate::util::control::Control;
use crate::util::disk::checksummed_frames::FramesHasher;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{Claim, Disk, Evidence, Stamp, prove, remove_file};

/// The files in an output folder that fastpack wrote, recognised by their content.
///
/// A file counts as fastpack's if one of its manifests lists it with the same size and hash.
#[derive(Debug, Default)]
pub(crate) struct OwnFiles {
    /// The output folder.
    dir: PathBuf,
    /// The stamp of each file when it was recognised, by name.
    files: BTreeMap<String, Stamp>,
    /// The names of all other files.
    pub(crate) others: Vec<String>,
}

/// The entry of a file in a manifest.
#[derive(Clone, Copy)]
struct ManifestEntry<'a> {
    bytes: u64,
    blake3: &'a str,
}

impl OwnFiles {
    /// Finds the remains of outputs that were being placed or replaced, by the manifests `remains`, and the
    /// `finished` output of the folder `dir` with the names of all other files.
    pub(crate) fn find(
        dir: &Path,
        finished: Option<&Manifest>,
        remains: &[&Manifest],
        control: &Control,
    ) -> Result<(Self, Self)> {
        let finished_files = listed(finished);
        let remaining_files = listed(remains.iter().copied());
        let none = || Self { dir: dir.to_owned(), ..Self::default() };
        let (mut left, mut whole) = (none(), none());
        for name in file_names::names(dir)? {
            let path = dir.join(&name);
            let before = Stamp::at(&path);
            let hashed = OwnedHash::new(&path, control);
            let owner = if name == MANIFEST {
                finished.map(|_| &mut whole)
            } else if hashed.is_one_of(finished_files.get(name.as_str()))? {
                Some(&mut whole)
            } else if hashed.is_one_of(remaining_files.get(name.as_str()))? {
                Some(&mut left)
            } else {
                None
            };
            match (owner, before) {
                (Some(owner), Some(stamp)) => {
                    owner.files.insert(name, stamp);
                }
                _ => whole.others.push(name),
            }
        }
        Ok((left, whole))
    }

    /// True if the file of this name was recognised as fastpack's.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Fails unless all files have the stamps that were found.
    pub(crate) fn refuse_changed(&self) -> Result<()> {
        for (name, stamp) in &self.files {
            let path = self.dir.join(name);
            match path.symlink_metadata() {
                Ok(metadata) if Stamp::of(&metadata) != *stamp => {
                    return Err(changed(path));
                }
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io(path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes all files. The manifest is moved to the work folder first: without it, no run takes the other files for whole,
    /// and there it says whose they are.
    pub(crate) fn remove(&mut self, work: &WorkFiles<'_>) -> Result<()> {
        self.refuse_changed()?;
        if self.files.contains_key(MANIFEST) {
            self.fetch(MANIFEST, work, REPLACED)?;
        }
        let names: Vec<String> = self.files.keys().cloned().collect();
        for name in names {
            let path = self.dir.join(&name);
            let Some(proof) = prove(&*self, &path) else { continue };
            if remove_file(proof).map_err(Error::io(&path))? {
                return Err(changed(path));
            }
            if name.contains('/') {
                remove_folder_of(&path);
            }
        }
        self.files.clear();
        Ok(())
    }

    /// Removes all files, the manifest last.
    pub(crate) fn discard(&mut self) -> Result<()> {
        self.refuse_changed()?;
        let mut names: Vec<String> = self.files.keys().cloned().collect();
        names.sort_by_key(|name| name == MANIFEST);
        for name in names {
            let path = self.dir.join(&name);
            let Some(proof) = prove(&*self, &path) else { continue };
            if remove_file(proof).map_err(Error::io(&path))? {
                return Err(changed(path));
            }
            if name.contains('/') {
                remove_folder_of(&path);
            }
        }
        self.files.clear();
        Ok(())
    }

    /// Moves a file to `to` in the work folder, over one of this job if there is one.
    pub(crate) fn fetch(&mut self, name: &str, work: &WorkFiles<'_>, to: &str) -> Result<()> {
        let path = self.dir.join(name);
        if self.files.get(name) != Stamp::at(&path).as_ref() {
            return Err(changed(path));
        }
        work.rename_into(&path, to)?;
        if name.contains('/') {
            remove_folder_of(&path);
        }
        self.files.remove(name);
        Ok(())
    }
}

impl Evidence<Disk> for OwnFiles {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let name = path.strip_prefix(&self.dir).ok().and_then(Path::to_str);
        match name.and_then(|name| self.files.get(name)) {
            Some(stamp) => Claim::Version(stamp.clone()),
            None => Claim::None,
        }
    }
}

/// The error for a file that somebody has written to since it was recognised.
fn changed(path: PathBuf) -> Error {
    let reason = "has changed while this ran, and is not replaced; move it away";
    Error::io(path)(io::Error::other(reason))
}

/// The files that manifests list, by name.
fn listed<'a>(
    manifests: impl IntoIterator<Item = &'a Manifest>,
) -> HashMap<&'a str, Vec<ManifestEntry<'a>>> {
    let mut listed: HashMap<&str, Vec<ManifestEntry<'_>>> = HashMap::new();
    for SizedFile { name, bytes, blake3 } in manifests.into_iter().flat_map(Manifest::listed) {
        listed.entry(name).or_default().push(ManifestEntry { bytes, blake3 });
    }
    listed
}

/// A file that is hashed at most once, and only if its size is listed.
struct OwnedHash<'a> {
    path: &'a Path,
    control: &'a Control,
    /// The hash, once it was computed; `None` for a file that cannot be opened.
    hash: OnceCell<Option<blake3::Hash>>,
}

impl<'a> OwnedHash<'a> {
    fn new(path: &'a Path, control: &'a Control) -> Self {
        Self { path, control, hash: OnceCell::new() }
    }

    /// True if the file has the size and hash of one of `listed`.
    fn is_one_of(&self, listed: Option<&Vec<ManifestEntry<'_>>>) -> Result<bool> {
        let path = self.path;
        let Ok(found) = path.symlink_metadata() else { return Ok(false) };
        let alike = listed.into_iter().flatten().filter(|it| it.bytes == found.len());
        let alike: Vec<_> = alike.collect();
        if alike.is_empty() || !found.is_file() {
            return Ok(false);
        }
        let hash = match self.hash.get() {
            Some(&hash) => hash,
            None if path.ends_with(TOKENS) => digest(path, self.control)?,
            None => hash(path, self.control)?,
        };
        let hash = self.hash.get_or_init(|| hash);
        Ok(hash.is_some_and(|hash| alike.iter().any(|it| it.blake3 == hash.to_hex().as_str())))
    }
}

/// True if there is a regular file at `path`, not a link, with this size and hash.
pub(crate) fn is_whole(path: &Path, bytes: u64, blake3: &str, control: &Control) -> Result<bool> {
    let is_as_long = path.symlink_metadata().is_ok_and(|it| it.is_file() && it.len() == bytes);
    Ok(is_as_long && hash(path, control)?.is_some_and(|hash| hash.to_hex().as_str() == blake3))
}

/// The hash of a log of blocks: the hash of its headers, if the blocks match them.
pub(crate) fn digest(path: &Path, control: &Control) -> Result<Option<blake3::Hash>> {
    let file = regular::open(path, Links::Refused).map_err(Error::io(path))?;
    let mut hasher = FramesHasher::default();
    regular::each_piece(file, path, control, |piece| hasher.update(piece))?;
    Ok(hasher.finalize())
}

/// The hash of a file; `None` if it can no longer be opened.
fn hash(path: &Path, control: &Control) -> Result<Option<blake3::Hash>> {
    let file = match regular::open(path, Links::Refused) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io(path)(error)),
    };
    regular::hash(file, path, control).map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_whole_with_its_size_and_hash_alone() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(3 * regular::PIECE + 5).collect();
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let control = Control::default();
        let is_whole = |bytes: &[u8], control: &Control| {
            fs::write(&path, bytes).expect("room");
            is_whole(&path, 3 * regular::PIECE as u64 + 5, &hash, control)
        };
        assert!(is_whole(&bytes, &control).expect("a file"));
        assert!(!is_whole(&bytes[1..], &control).expect("a file"));
        let mut spoilt = bytes.clone();
        spoilt[2 * regular::PIECE] ^= 1;
        assert!(!is_whole(&spoilt, &control).expect("a file"));
        control.cancel();
        assert!(is_whole(&bytes, &control).is_err());
    }
}
