//! Folders of `datasets.save_to_disk`, and of MDS shards: their files, in order.

use std::path::{Path, PathBuf};

use fastpack_tokenize::loading::regular;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::util::disk::inside_folder::FolderBounds;

/// The file that lists the files of a dataset.
pub(crate) const STATE: &str = "state.json";

/// The file that lists the splits of several datasets.
pub(crate) const SPLITS: &str = "dataset_dict.json";

/// The file that lists the shards of an MDS dataset.
const INDEX: &str = "index.json";

/// The most bytes of such a file: enough for a million files.
const LARGEST: u64 = 256 << 20;

/// The most splits that a message names.
const SHOWN: usize = 10;

/// The fields that are read from [`STATE`].
#[derive(Deserialize)]
struct StateFile {
    #[serde(rename = "_data_files")]
    data_files: Vec<DataFile>,
}

#[derive(Deserialize)]
struct DataFile {
    filename: PathBuf,
}

/// The fields that are read from [`INDEX`].
#[derive(Deserialize)]
struct DatasetIndex {
    shards: Vec<ListedShard>,
}

#[derive(Deserialize)]
struct ListedShard {
    format: String,
    raw_data: IndexFile,
    zip_data: Option<IndexFile>,
}

/// A file of a shard: as it is, or compressed.
#[derive(Deserialize)]
struct IndexFile {
    basename: PathBuf,
}

impl DatasetIndex {
    /// The files of the shards in the folder `dir`: those that are not compressed, where there are both; `None` if a
    /// shard is of another format.
    fn files(self, dir: &Path) -> Option<Vec<PathBuf>> {
        let file = |ListedShard { format, raw_data, zip_data }: ListedShard| {
            let zip = zip_data.filter(|_| !dir.join(&raw_data.basename).exists());
            (format == "mds").then(|| zip.unwrap_or(raw_data).basename)
        };
        self.shards.into_iter().map(file).collect()
    }
}

/// The fields that are read from [`SPLITS`].
#[derive(Deserialize)]
struct DatasetSplits {
    splits: Vec<String>,
}

/// The files of the dataset in `dir`; `None` if it is no dataset.
///
/// # Errors
///
/// [`Error::Option`] for a folder of several datasets: the caller must name one.
pub(crate) fn files(dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    let refuse = |reason: String| Error::option("files", format!("`{}` {reason}", dir.display()));
    if let Some(text) = text(&dir.join(SPLITS))?
        && let Ok(DatasetSplits { splits }) = serde_json::from_slice(&text)
    {
        let mut named: Vec<String> = splits
            .iter()
            .take(SHOWN)
            .map(|split| format!("`{}`", dir.join(split).display()))
            .collect();
        if splits.len() > SHOWN {
            named.push(format!("and {} more", splits.len() - SHOWN));
        }
        return Err(refuse(format!("holds several datasets; name one: {}", named.join(", "))));
    }
    let Some((list, named)) = list_in(dir)? else { return Ok(None) };
    if named.is_empty() {
        return Err(refuse("is a dataset without rows".to_owned()));
    }
    let bounds = FolderBounds::of(dir).map_err(Error::io(dir))?;
    let inside = |filename: PathBuf| {
        bounds.path_of(&filename).ok_or_else(|| {
            refuse(format!(
                "is a dataset whose `{list}` names `{}`, which is not in that folder; name the file by its own path to read it",
                filename.display()
            ))
        })
    };
    named.into_iter().map(inside).collect::<Result<_>>().map(Some)
}

/// The file that lists the files of the dataset in `dir`, and the names in it; `None` if there is none.
fn list_in(dir: &Path) -> Result<Option<(&'static str, Vec<PathBuf>)>> {
    // Other programs may use these file names too.
    if let Some(text) = text(&dir.join(STATE))?
        && let Some(named) = listed(&text)
    {
        return Ok(Some((STATE, named)));
    }
    if let Some(text) = text(&dir.join(INDEX))?
        && let Ok(index) = serde_json::from_slice::<DatasetIndex>(&text)
    {
        return Ok(index.files(dir).map(|named| (INDEX, named)));
    }
    Ok(None)
}

/// The names of the files of a dataset, by the content of its [`STATE`]; `None` for a file of another program.
pub(crate) fn listed(text: &[u8]) -> Option<Vec<PathBuf>> {
    let StateFile { data_files } = serde_json::from_slice(text).ok()?;
    Some(data_files.into_iter().map(|file| file.filename).collect())
}

fn text(path: &Path) -> Result<Option<Vec<u8>>> {
    // A larger file is no list of files.
    if !path.metadata().is_ok_and(|file| file.is_file() && file.len() <= LARGEST) {
        return Ok(None);
    }
    regular::read(path).map(Some).map_err(Error::io(path))
}
