//! The names of the files in the work folder of a job.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::file_names::{
    BEGUN, BEGUN_NEW, BLOCKS, BLOCKS_NEW, LOCK, MANIFEST, MANIFEST_NEW, REPLACED, REPORT, SHARDS,
    SHARDS_NEW, SPLIT_HASHES, STARTED, STARTED_NEW, WORK, number_of_shard,
};
use super::shards::begun_shards;
use super::shards::finished_list_lines::count_listed;
use super::shards::folder_layout;
use crate::config::identity::Identity;
use crate::error::Error;
use crate::util::disk::regular::{self, Links};

/// The names that runs of a job have written into a work folder so far.
#[derive(Debug)]
pub(crate) struct WrittenNames {
    /// The number of the last shard that a run may have begun: the one behind those that its list names, or the last that it has recorded.
    last_shard: usize,
    /// The ending of its shards; `None` for any.
    extension: Option<&'static str>,
    /// The inputs, if its shards are named after them.
    inputs: Option<InputNames>,
}

impl WrittenNames {
    /// The names that runs of `job` have written into the work folder `work`.
    pub(crate) fn find(work: &Path, job: &Identity) -> Self {
        let extension = job.output.as_ref().map(|output| output.coding.format.extension());
        let inputs = job.is_per_file().then(|| InputNames::of(job));
        Self { extension, inputs, ..Self::of_any_job(work) }
    }

    /// The names that runs of any job, but for those that name outputs after inputs, have written into the work folder `work`.
    pub(crate) fn of_any_job(work: &Path) -> Self {
        let mut text = Vec::new();
        // A list that cannot be read names none. One of another job, or a damaged one, has as many lines.
        let _ = regular::open(&work.join(SHARDS), Links::Refused)
            .and_then(|mut list| list.read_to_end(&mut text));
        let last_shard = count_listed(&text).max(begun_shards::last(work));
        Self { last_shard, extension: None, inputs: None }
    }

    /// True if a run has written a file of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_as_shards = |extension: &str| self.extension.is_none_or(|it| it == extension);
        match (&self.inputs, number_of_shard(name), name.rsplit_once('.')) {
            (None, Some(number), Some((_, extension))) => {
                number <= self.last_shard && is_as_shards(extension)
            }
            (Some(inputs), _, Some((stem, extension))) if is_as_shards(extension) => {
                inputs.name(stem, self.last_shard) || is_unnumbered(name)
            }
            _ => is_unnumbered(name),
        }
    }
}

/// The names of inputs, after which a job names its shards.
#[derive(Debug)]
struct InputNames {
    /// The inputs by their file names without an extension, or without several.
    files: HashMap<String, Vec<Arc<Path>>>,
}

impl InputNames {
    fn of(job: &Identity) -> Self {
        let mut files: HashMap<String, Vec<Arc<Path>>> = HashMap::new();
        for path in job.files() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
            for end in ends.filter(|end| *end > 0) {
                files.entry(name[..end].to_owned()).or_default().push(Arc::clone(&path));
            }
        }
        Self { files }
    }

    /// True if a shard, by its name without the extension, is that of an input: the name of the input, with the parent folders
    /// that tell it from others, and a number up to `most` but for the first shard.
    fn name(&self, shard: &str, most: usize) -> bool {
        let numbered = shard.rsplit_once('-').filter(|(_, digits)| {
            digits.len() >= 5 && digits.parse().is_ok_and(|number: usize| number <= most)
        });
        [Some(shard), numbered.map(|(stem, _)| stem)]
            .into_iter()
            .flatten()
            .any(|stem| self.has(stem))
    }

    /// True if an input has this stem.
    fn has(&self, stem: &str) -> bool {
        let dashes = stem.match_indices('-').map(|(at, _)| at + 1);
        [0].into_iter().chain(dashes).any(|begin| {
            let inputs = self.files.get(&stem[begin..]);
            inputs.into_iter().flatten().any(|path| {
                let folders = path.parent().into_iter().flat_map(Path::components);
                let folders: Vec<_> = folders.map(|it| it.as_os_str().to_string_lossy()).collect();
                let parents = stem[..begin].trim_end_matches('-');
                begin == 0 || format!("-{}", folders.join("-")).ends_with(&format!("-{parents}"))
            })
        })
    }
}

/// True if this is the name of a file of the work folder that is no shard.
fn is_unnumbered(name: &str) -> bool {
    number_of_shard(name).is_none() && is_of_any_job(name)
}

/// True if a run of any job, except one that names outputs after inputs, may write a file of this name into the
/// work folder.
pub(super) fn is_of_any_job(name: &str) -> bool {
    let ours = [
        LOCK,
        STARTED,
        STARTED_NEW,
        SHARDS,
        SHARDS_NEW,
        BEGUN,
        BEGUN_NEW,
        BLOCKS,
        BLOCKS_NEW,
        REPORT,
        MANIFEST,
        MANIFEST_NEW,
        REPLACED,
        SPLIT_HASHES,
    ];
    ours.contains(&name) || folder_layout::describes(name) || number_of_shard(name).is_some()
}

/// The error for the file `name` in the work folder of `dir`, which fastpack did not write.
pub(super) fn foreign(dir: &Path, name: &str) -> Error {
    let reason = format!(
        "holds `{WORK}/{name}`, which fastpack did not write, or which has changed since; move `{WORK}` away, or write to another folder"
    );
    Error::output(dir, reason)
}
