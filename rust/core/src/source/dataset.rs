//! Folders that `datasets` wrote with `save_to_disk`: which files they hold, in which order.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};

/// The file that lists the files of a dataset.
const STATE: &str = "state.json";

/// The file that lists the splits of several datasets.
const SPLITS: &str = "dataset_dict.json";

/// What is read of [`STATE`].
#[derive(Deserialize)]
struct State {
    #[serde(rename = "_data_files")]
    data_files: Vec<DataFile>,
}

#[derive(Deserialize)]
struct DataFile {
    filename: PathBuf,
}

/// What is read of [`SPLITS`].
#[derive(Deserialize)]
struct Splits {
    splits: Vec<String>,
}

/// The files of the dataset that `dir` is; nothing if it is none.
///
/// # Errors
///
/// [`Error::Option`] for a folder of several datasets, of which one has to be named.
pub(super) fn files(dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    let refuse = |reason: String| Error::option("files", format!("`{}` {reason}", dir.display()));
    if let Some(text) = text(&dir.join(SPLITS))?
        && let Ok(Splits { splits }) = serde_json::from_slice(&text)
    {
        let named: Vec<String> =
            splits.iter().map(|split| format!("`{}`", dir.join(split).display())).collect();
        return Err(refuse(format!("holds several datasets; name one: {}", named.join(", "))));
    }
    let Some(text) = text(&dir.join(STATE))? else { return Ok(None) };
    // Another program may call a file so too.
    let Ok(State { data_files }) = serde_json::from_slice(&text) else { return Ok(None) };
    if data_files.is_empty() {
        return Err(refuse("is a dataset without rows".to_owned()));
    }
    Ok(Some(data_files.into_iter().map(|file| dir.join(file.filename)).collect()))
}

fn text(path: &Path) -> Result<Option<Vec<u8>>> {
    if !path.is_file() {
        return Ok(None);
    }
    std::fs::read(path).map(Some).map_err(Error::io(path))
}
