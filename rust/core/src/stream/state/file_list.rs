//! [`FileList`]: the files of a source, as a state knows them: their names, sizes and samples of their content.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::iter;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::source::{SourceFile, shared_folder};
use crate::storage::OpenFile;
use crate::util::control::Control;
use crate::util::disk::regular::Links;
use crate::util::disk::sealed;
use crate::util::disk::sealed::Sealed;

/// Bytes at the beginning and at the end of a file that identify it.
const SAMPLE: u64 = 4 << 10;

/// The beginning of the names of files of the hub. Their etags are hashes of their content, and their names hold a commit, which
/// is no part of a list.
const HUB: &str = "hf://datasets";

/// The most files named in one message.
const NAMED: usize = 5;

/// The files of a source, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileList {
    files: Vec<KnownFile>,
}

/// A file of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownFile {
    /// Its name below the common folder of the files.
    name: String,
    size: u64,
    /// A hash of its name, its size, its format, a sample of its content, and its etag if it is of the hub.
    hash: String,
}

impl FileList {
    /// The list of some files.
    pub(crate) fn of<'a>(
        files: impl Iterator<Item = &'a SourceFile>,
        control: &Control,
    ) -> Result<Self> {
        let files: Vec<&SourceFile> = files.collect();
        let shared = shared_folder(files.iter().map(|file| &*file.path));
        let listed = |file: &SourceFile| -> Result<KnownFile> {
            control.tick()?;
            let name = file.path.strip_prefix(shared).unwrap_or(&file.path);
            let mut hasher = blake3::Hasher::new();
            let bytes = name.as_os_str().as_encoded_bytes();
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
            hasher.update(&file.size.to_le_bytes());
            hasher.update(file.format.to_string().as_bytes());
            if let Some(etag) = file.etag.as_deref().filter(|_| file.path.starts_with(HUB)) {
                hasher.update(etag.as_bytes());
            }
            let mut opened =
                file.location.open_scattered(iter::empty()).map_err(Error::io(&*file.path))?;
            sample(&mut opened, file.size, &mut hasher).map_err(Error::io(&*file.path))?;
            let hash = short(&hasher.finalize().to_hex()).to_owned();
            Ok(KnownFile { name: name.display().to_string(), size: file.size, hash })
        };
        let files = files.iter().map(|file| listed(file)).collect::<Result<_>>()?;
        Ok(Self { files })
    }

    /// A hash of the whole list.
    pub(crate) fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for file in &self.files {
            hasher.update(file.hash.as_bytes());
        }
        short(&hasher.finalize().to_hex()).to_owned()
    }

    /// Writes the list into a folder, unless it is there.
    pub(crate) fn keep(&self, dir: &Path) -> Result<()> {
        let path = place(dir, &self.hash());
        if path.exists() {
            return Ok(());
        }
        sealed::keep(&path, self)
    }

    /// The list with a hash in a folder, if it is there and whole.
    pub(crate) fn kept(dir: &Path, hash: &str) -> Option<Self> {
        let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let path = is_hash.then(|| place(dir, hash))?;
        let Sealed::Whole(text) = sealed::read(&path, Links::Refused).ok()? else { return None };
        let list: Self = serde_json::from_slice(&text).ok()?;
        (list.hash() == hash).then_some(list)
    }

    /// The differences of another list, in words: the files that are missing, new or changed.
    pub(crate) fn differences(&self, now: &Self) -> String {
        let named = |list: &'_ Self| -> BTreeMap<String, String> {
            list.files.iter().map(|file| (file.name.clone(), file.hash.clone())).collect()
        };
        let (was, is) = (named(self), named(now));
        let missing = was.keys().filter(|name| !is.contains_key(*name));
        let new = is.keys().filter(|name| !was.contains_key(*name));
        let changed = was.iter().filter(|(name, hash)| is.get(*name).is_some_and(|it| it != *hash));
        let words = [
            ("missing", missing.cloned().collect::<Vec<_>>()),
            ("new", new.cloned().collect()),
            ("changed", changed.map(|(name, _)| name.clone()).collect()),
        ];
        let words = words.into_iter().filter(|(_, names)| !names.is_empty());
        let listed: Vec<String> = words
            .map(|(word, names)| {
                let more = names.len().saturating_sub(NAMED);
                let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
                let shown: Vec<String> =
                    names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
                format!("{word}: {}{rest}", shown.join(", "))
            })
            .collect();
        if listed.is_empty() {
            "the same files in another order".to_owned()
        } else {
            listed.join("; ")
        }
    }
}

/// The file that holds the list with a hash.
fn place(dir: &Path, hash: &str) -> PathBuf {
    dir.join(format!("files-{hash}.json"))
}

/// Hashes the beginning and the end of a file.
fn sample(file: &mut OpenFile, size: u64, hasher: &mut blake3::Hasher) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    file.by_ref().take(SAMPLE).read_to_end(&mut bytes)?;
    if size > SAMPLE {
        file.seek(SeekFrom::Start(size.saturating_sub(SAMPLE).max(SAMPLE)))?;
        file.take(SAMPLE).read_to_end(&mut bytes)?;
    }
    hasher.update(&bytes);
    Ok(())
}

/// Enough digits of a hash to tell runs apart.
pub(crate) fn short(hash: &str) -> &str {
    hash.get(..16).unwrap_or(hash)
}
