//! The names of the files in an output folder and in its work folder.

use std::fs;
use std::io;
use std::path::Path;

use crate::config::{Format, Split};
use crate::error::{Error, Result};
use crate::util::disk::regular;

/// The folder in the output folder that a run works in.
pub(super) const WORK: &str = ".fastpack";

/// The name of the lock file in it.
pub(super) const LOCK: &str = "lock";

/// The name of the manifest in a finished folder.
pub(super) const MANIFEST: &str = "manifest.json";

/// The name of the file that becomes [`MANIFEST`] in the work folder once it is written.
pub(super) const MANIFEST_NEW: &str = "manifest.json.new";

/// The name of the report.
pub(super) const REPORT: &str = "report.json";

/// The name of the file in the work folder that records the started job.
pub(super) const STARTED: &str = "started.json";

/// The name of the file that becomes [`STARTED`] once it is written.
pub(super) const STARTED_NEW: &str = "started.json.new";

/// The name of the file in the work folder that lists the finished shards.
pub(super) const SHARDS: &str = "shards";

/// The name of the file that becomes [`SHARDS`] once it is written.
pub(super) const SHARDS_NEW: &str = "shards.new";

/// The name of the file in the work folder that numbers the shards that were begun while earlier ones were not listed.
pub(super) const BEGUN: &str = "shards.begun";

/// The name of the file that becomes [`BEGUN`] once it is written.
pub(super) const BEGUN_NEW: &str = "shards.begun.new";

/// The name, in the work folder, of the manifest of the output that is being replaced.
pub(super) const REPLACED: &str = "replaced.json";

/// The name of the log of finished blocks in the work folder.
pub(super) const BLOCKS: &str = "blocks";

/// The name of the file that becomes [`BLOCKS`] once it is written, where it is copied.
pub(super) const BLOCKS_NEW: &str = "blocks.new";

/// The name of the folder in the work folder where the groups of a job are packed.
pub(super) const GROUPS: &str = "groups";

/// The name that this folder has while it is removed.
pub(super) const GROUPS_REMOVED: &str = "groups.removed";

/// The name of the file with the split hashes of the documents of a group, in its folder beside its tokens.
pub const SPLIT_HASHES: &str = "split_hashes";

/// The name of the log in the output folder, if the tokens are kept.
pub const TOKENS: &str = "tokens.fastpack";

/// The name of a shard: its split, and a number of five digits or more.
pub(super) fn shard_name(split: Split, number: usize, extension: &str) -> String {
    format!("{}-{number:05}.{extension}", split.name())
}

/// True if this is the name of a shard of `split`, of any job and format.
pub(super) fn is_shard_of(split: Split, name: &str) -> bool {
    digits_of_shard(split, name).is_some()
}

/// The number in the name of a shard of any split, job and format.
pub(crate) fn number_of_shard(name: &str) -> Option<usize> {
    Split::ALL.into_iter().find_map(|split| digits_of_shard(split, name))?.parse().ok()
}

fn digits_of_shard(split: Split, name: &str) -> Option<&str> {
    let rest = name.strip_prefix(split.name())?.strip_prefix('-')?;
    let (digits, extension) = rest.split_once('.')?;
    let is_number = digits.len() >= 5 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_known = Format::all().any(|format| format.extension() == extension);
    (is_number && is_known).then_some(digits)
}

/// The names of the folders of splits.
pub(super) fn split_folders() -> [&'static str; Split::ALL.len()] {
    Split::ALL.map(Split::name)
}

/// The files in the folder besides the work folder, sorted. For folders named after splits, the files in
/// them.
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in entries(dir)? {
        let inner = dir.join(&name);
        if split_folders().contains(&name.as_str()) && regular::is_folder(&inner) {
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
