//! [`Manifest`]: the job of an output folder, and its files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDateTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file_names::{TOKENS, WORK, split_folders};
use super::folder::renamed_files::write_by;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::report::listed_path::ListedPath;
use crate::util::disk::expected_hash::ExpectedHash;
use crate::util::disk::hex_hash::HexHash;
use crate::util::disk::regular::Links;
use crate::util::disk::sealed;

/// The version of the manifest's layout. Increase it with every change of the layout, and of the names of options in a job.
pub const VERSION: u32 = 6;

/// The job of an output folder, and its files, as [sealed] text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The layout of the manifest.
    pub version: u32,
    /// The identity of the job: everything that decides the content.
    pub job: Arc<Identity>,
    /// The arguments of the call that wrote it. With them the call can be made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Value>,
    /// The name of the job whose output this one has replaced, grown by appended files. A killed call may have left its emptied folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// The time of day that templates saw: the start of the first run of the job, unless another was given.
    pub now: NaiveDateTime,
    /// A hash of the content of each input, by its path; empty before the job has finished.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub content: BTreeMap<ListedPath, HexHash>,
    /// The counts from which the report was made, to which those of appended files are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Value>,
    /// The kept tokens, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensFile>,
    /// The shards, in order. Before the job has finished, they are listed in a separate file under other
    /// names.
    pub files: Vec<WrittenShard>,
    /// The report, and the files that describe the shards to other readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "beside")]
    pub metadata_files: Vec<MetadataFile>,
}

/// The file of kept tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensFile {
    /// The size of the file.
    pub bytes: u64,
    /// The number of blocks in it.
    pub blocks: u64,
    /// The BLAKE3 hash, in hexadecimal, of the headers of its blocks. The headers contain the hashes of the
    /// blocks.
    pub blake3: String,
}

/// A file beside the shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataFile {
    /// The name in the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its BLAKE3 hash, in hexadecimal.
    pub blake3: String,
}

impl MetadataFile {
    /// The entry of a file called `name` with this content.
    pub(super) fn of(name: String, content: &[u8]) -> Self {
        let blake3 = blake3::hash(content).to_hex().to_string();
        Self { name, bytes: content.len() as u64, blake3 }
    }
}

/// A shard that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenShard {
    /// The name in the folder.
    pub name: String,
    /// The rows in it.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// Its BLAKE3 hash, in hexadecimal.
    pub blake3: String,
    /// The hashes of its parts of 8 MiB, in hexadecimal and one behind the other; empty for a file of one part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parts: String,
}

impl Manifest {
    /// A manifest of the current version.
    pub(super) fn new(job: Arc<Identity>, now: NaiveDateTime, files: Vec<WrittenShard>) -> Self {
        let content = BTreeMap::new();
        let (recipe, replaced) = (None, None);
        Self {
            version: VERSION,
            job,
            recipe,
            replaced,
            now,
            content,
            counts: None,
            tokens: None,
            files,
            metadata_files: Vec::new(),
        }
    }

    /// The manifest at `path`; `None` if there is none, or one that was changed or has another version.
    pub(super) fn read(path: &Path, links: Links) -> Result<Option<Self>> {
        let manifest: Option<Self> = sealed::read_object(path, links).map_err(Error::io(path))?;
        Ok(manifest.filter(Self::is_valid))
    }

    /// The fault of the manifest `name` in a folder if another version of fastpack wrote it; `None` if there is none, or it was
    /// changed.
    pub(super) fn fault_of_version(dir: &Path, name: &str, links: Links) -> Result<Option<String>> {
        let path = dir.join(name);
        let found: Option<Versioned> =
            sealed::read_object(&path, links).map_err(Error::io(&path))?;
        Ok(found.and_then(|it| it.fault(name)))
    }

    /// The fault of the manifest `name` with this text, likewise.
    pub(super) fn fault_of_text(name: &str, text: &[u8]) -> Option<String> {
        let found: Versioned =
            serde_json::from_slice(text).ok().filter(|_| sealed::is_whole(text))?;
        found.fault(name)
    }

    /// The manifest in `text`; `None` for one that was changed or has another version.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if sealed::is_whole(text) { Self::of(text) } else { None }
    }

    fn of(text: &[u8]) -> Option<Self> {
        let manifest: Option<Self> = serde_json::from_slice(text).ok();
        manifest.filter(Self::is_valid)
    }

    fn is_valid(&self) -> bool {
        self.version == VERSION && self.names().all(is_plain)
    }

    /// The names in the folder of all files but the manifest.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let shards = self.files.iter().map(|file| file.name.as_str());
        let metadata_files = self.metadata_files.iter().map(|file| file.name.as_str());
        shards.chain(metadata_files).chain(self.tokens.iter().map(|_| TOKENS))
    }

    /// All files but the manifest.
    pub(super) fn listed(&self) -> impl Iterator<Item = SizedFile<'_>> {
        let shards = self.files.iter().map(|it| SizedFile {
            name: &it.name,
            bytes: it.bytes,
            blake3: &it.blake3,
        });
        let tokens = self.tokens.iter().map(|it| SizedFile {
            name: TOKENS,
            bytes: it.bytes,
            blake3: &it.blake3,
        });
        let metadata_files = self.metadata_files.iter().map(|it| SizedFile {
            name: &it.name,
            bytes: it.bytes,
            blake3: &it.blake3,
        });
        shards.chain(tokens).chain(metadata_files)
    }

    pub(super) fn to_text(&self) -> String {
        sealed::seal(self)
    }

    /// Writes the manifest to a new file, and syncs it to the disk. It names every input, so memory never holds its text.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        write_by(path, |file| sealed::seal_to(file, self))
    }
}

/// The name, size and hash of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizedFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) bytes: u64,
    pub(crate) blake3: &'a str,
}

/// A manifest of any version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Versioned {
    fn fault(&self, name: &str) -> Option<String> {
        let Self { version } = self;
        (*version != VERSION).then(|| {
            format!(
                "holds the output of another version of fastpack: `{name}` has the version {version}, and this one reads \
                 {VERSION}"
            )
        })
    }
}

/// The hash that a manifest lists of the file `name`.
pub(super) fn expected<'a>(name: &str, blake3: &'a str) -> ExpectedHash<'a> {
    if name == TOKENS { ExpectedHash::of_frames(blake3) } else { ExpectedHash::of_bytes(blake3) }
}

/// The most bytes of a file's name on any file system.
const LONGEST_NAME: usize = 255;

/// True if a name is that of a file in the output folder itself, or in the folder of a split.
fn is_plain(name: &str) -> bool {
    let name = match name.split_once('/') {
        Some((split, inside)) if split_folders().contains(&split) => inside,
        _ => name,
    };
    let path = Path::new(name);
    // Any other path is absolute, contains folders, or has no file name.
    path.file_name().is_some_and(|last| last == path.as_os_str())
        && name != WORK
        && name.len() <= LONGEST_NAME
}
