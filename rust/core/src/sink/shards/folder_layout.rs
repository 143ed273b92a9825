//! [`FolderLayout`]: the final names of shards, and the files that describe them to other readers.

use std::path::Path;

use arrow::ipc::reader::StreamReader;
use serde_json::{Value, json};

use crate::config::{Output, Split};
use crate::error::{Error, Result};
use crate::sink::file_names::{is_shard_of, split_folders};
use crate::sink::manifest::WrittenShard;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;

/// The file that lists the shards of a dataset.
const STATE: &str = "state.json";

/// The file that names the columns of a dataset.
const INFO: &str = "dataset_info.json";

/// The file that lists the splits of a folder of several datasets.
const SPLITS: &str = "dataset_dict.json";

/// The number of digits of a hash in the fingerprint of a dataset.
const FINGERPRINT: usize = 16;

/// The layout of a finished folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderLayout {
    /// Shards keep the names under which they were written.
    Plain,
    /// One dataset, as `datasets.load_from_disk` maps it.
    Dataset,
    /// One dataset for each split, each in a folder of its own.
    Splits,
}

impl FolderLayout {
    pub(crate) fn of(output: &Output) -> Self {
        match (output.hf_layout, &output.validation) {
            (false, _) => Self::Plain,
            (true, None) => Self::Dataset,
            (true, Some(_)) => Self::Splits,
        }
    }

    /// All shards of a job under their final names. In the work folder they have the names of `files`.
    pub(crate) fn place(self, files: &[WrittenShard]) -> Vec<WrittenShard> {
        if self == Self::Plain {
            return files.to_vec();
        }
        let mut placed = Vec::with_capacity(files.len());
        for split in Split::ALL {
            let shards = shards(files, split);
            for (name, shard) in data_names(shards.len()).zip(shards) {
                placed.push(WrittenShard { name: self.inside(split, &name), ..shard.clone() });
            }
        }
        placed
    }

    /// The files that describe all shards of a job in the folder `work`: their names and contents.
    pub(crate) fn describe(
        self,
        work: &Path,
        files: &[WrittenShard],
    ) -> Result<Vec<(String, String)>> {
        if self == Self::Plain {
            return Ok(Vec::new());
        }
        let mut described = Vec::new();
        for split in Split::ALL {
            let shards = shards(files, split);
            let Some(first) = shards.first() else { continue };
            described.push((self.inside(split, INFO), info(&work.join(&first.name))?));
            described.push((self.inside(split, STATE), state(&shards)));
        }
        if self == Self::Splits {
            described.push((SPLITS.to_owned(), json!({ "splits": split_folders() }).to_string()));
        }
        Ok(described)
    }

    /// True if this is the name of a dataset's file in the output folder.
    pub(crate) fn places(self, name: &str) -> bool {
        match (self, name.split_once('/')) {
            (Self::Plain, _) => false,
            (Self::Dataset, _) => is_of_dataset(name),
            (Self::Splits, None) => name == SPLITS || split_folders().contains(&name),
            (Self::Splits, Some((split, inside))) => {
                split_folders().contains(&split) && is_of_dataset(inside)
            }
        }
    }

    /// The name of a file of `split` in the folder.
    fn inside(self, split: Split, name: &str) -> String {
        if self == Self::Splits { format!("{}/{name}", split.name()) } else { name.to_owned() }
    }
}

/// The split of a shard, by its final name.
pub(crate) fn split_of(name: &str) -> Split {
    let is_of = |split: &Split| match name.split_once('/') {
        Some((folder, _)) => folder == split.name(),
        None => is_shard_of(*split, name),
    };
    // The shards of a single dataset do not name it.
    Split::ALL.into_iter().find(is_of).unwrap_or(Split::Train)
}

/// True if this is the name of a describing file in the work folder.
pub(crate) fn describes(name: &str) -> bool {
    let of_split = |split| name.strip_prefix(split).and_then(|rest| rest.strip_prefix('-'));
    let name = split_folders().into_iter().find_map(of_split).unwrap_or(name);
    [STATE, INFO, SPLITS].contains(&name)
}

/// True if this is the name of a file of a dataset.
fn is_of_dataset(name: &str) -> bool {
    let numbers = name.strip_prefix("data-").and_then(|rest| rest.strip_suffix(".arrow"));
    let is_number =
        |text: &str| text.len() >= 5 && text.bytes().all(|digit| digit.is_ascii_digit());
    [STATE, INFO, SPLITS].contains(&name)
        || numbers
            .and_then(|numbers| numbers.split_once("-of-"))
            .is_some_and(|(number, count)| is_number(number) && is_number(count))
}

fn shards(files: &[WrittenShard], split: Split) -> Vec<&WrittenShard> {
    files.iter().filter(|file| is_shard_of(split, &file.name)).collect()
}

/// The names of `count` shards of a dataset.
fn data_names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("data-{number:05}-of-{count:05}.arrow"))
}

/// The columns as `datasets` has them in the metadata of a shard. A resumed run may have no batch left to
/// take them from.
fn info(shard: &Path) -> Result<String> {
    let file = regular::open(shard, Links::Refused).map_err(Error::io(shard))?;
    let reader = StreamReader::try_new(file, None)?;
    let schema = reader.schema();
    let mut metadata = schema.metadata.values();
    let features = metadata.find_map(|text| {
        serde_json::from_str::<Value>(text).ok()?.pointer("/info/features").cloned()
    });
    Ok(pretty(&json!({
        "citation": "",
        "description": "",
        "features": features,
        "homepage": "",
        "license": "",
    })))
}

/// The `state.json` of a dataset with these shards. `datasets` draws a random fingerprint to name its cached
/// results; here it is a hash of the rows.
fn state(shards: &[&WrittenShard]) -> String {
    let mut hasher = blake3::Hasher::new();
    for shard in shards {
        hasher.update(shard.blake3.as_bytes());
    }
    let hash = hasher.finalize().to_hex();
    let files = data_names(shards.len()).map(|name| json!({ "filename": name }));
    pretty(&json!({
        "_data_files": files.collect::<Vec<Value>>(),
        "_fingerprint": &hash.as_str()[..FINGERPRINT],
        "_format_columns": null,
        "_format_kwargs": {},
        "_format_type": null,
        "_output_all_columns": false,
        "_split": null,
    }))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}
