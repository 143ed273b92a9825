//! Folders of `datasets.save_to_disk`: their files, in order.

use std::io;
use std::path::{Component, Path, PathBuf};

use fastpack_tokenize::regular;
use serde::Deserialize;

use crate::error::{Error, Result};

/// The file that lists the files of a dataset.
const STATE: &str = "state.json";

/// The file that lists the splits of several datasets.
const SPLITS: &str = "dataset_dict.json";

/// The most bytes of such a file: enough for a million files.
const LARGEST: u64 = 256 << 20;

/// The most splits that a message names.
const SHOWN: usize = 10;

/// The fields that are read from [`STATE`].
#[derive(Deserialize)]
struct State {
    #[serde(rename = "_data_files")]
    data_files: Vec<DataFile>,
}

#[derive(Deserialize)]
struct DataFile {
    filename: PathBuf,
}

/// The fields that are read from [`SPLITS`].
#[derive(Deserialize)]
struct Splits {
    splits: Vec<String>,
}

/// The files of the dataset in `dir`; `None` if it is no dataset.
///
/// # Errors
///
/// [`Error::Option`] for a folder of several datasets: the caller must name one.
pub(super) fn files(dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    let refuse = |reason: String| Error::option("files", format!("`{}` {reason}", dir.display()));
    if let Some(text) = text(&dir.join(SPLITS))?
        && let Ok(Splits { splits }) = serde_json::from_slice(&text)
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
    let Some(text) = text(&dir.join(STATE))? else { return Ok(None) };
    // Other programs may use this file name too.
    let Ok(State { data_files }) = serde_json::from_slice(&text) else { return Ok(None) };
    if data_files.is_empty() {
        return Err(refuse("is a dataset without rows".to_owned()));
    }
    let root = root(dir).map_err(Error::io(dir))?;
    let inside = |DataFile { filename }: DataFile| {
        let path = dir.join(&filename);
        let is_name = filename.components().all(|part| matches!(part, Component::Normal(_)));
        // A file that is not there is an error of its own.
        let leaves = || path.canonicalize().is_ok_and(|real| !real.starts_with(&root));
        if is_name && !leaves() {
            return Ok(path);
        }
        Err(refuse(format!(
            "is a dataset whose `{STATE}` names `{}`, which is not in that folder; name the file by its own path to read it",
            filename.display()
        )))
    };
    data_files.into_iter().map(inside).collect::<Result<_>>().map(Some)
}

/// The folder that must contain the files of a dataset in `dir`: `dir` itself, or the cache of a repository
/// of the hub, whose folders hold links to its blobs.
fn root(dir: &Path) -> io::Result<PathBuf> {
    let dir = dir.canonicalize()?;
    let snapshots = dir.ancestors().find(|folder| folder.ends_with("snapshots"));
    let cache = snapshots.and_then(Path::parent).filter(|cache| cache.join("blobs").is_dir());
    Ok(cache.map_or(dir.clone(), Path::to_owned))
}

fn text(path: &Path) -> Result<Option<Vec<u8>>> {
    // A larger file is no list of files.
    if !path.metadata().is_ok_and(|file| file.is_file() && file.len() <= LARGEST) {
        return Ok(None);
    }
    regular::read(path).map(Some).map_err(Error::io(path))
}
