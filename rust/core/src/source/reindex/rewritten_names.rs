//! [`targets`]: the path of each file that is written again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::can_be_reindexed::{is_array, why_whole};
use crate::error::{Error, Result};
use crate::source::discovery::found::{FoundFiles, SourceFile, shared_folder};
use crate::source::formats::format::Container;
use crate::util::control::Control;

/// The path of each file in the folder.
pub(super) fn targets(found: &FoundFiles, dir: &Path, control: &Control) -> Result<Vec<PathBuf>> {
    let shared = shared_folder(found.files.iter().map(|file| &*file.path));
    let mut taken: HashMap<PathBuf, &Path> = HashMap::new();
    let mut targets = Vec::with_capacity(found.files.len());
    for file in &found.files {
        let place = file.path.strip_prefix(shared).unwrap_or(&file.path);
        let to = dir.join(place).with_file_name(target_name(file, control)?);
        if let Some(other) = taken.insert(to.clone(), &file.path) {
            let reason = format!(
                "`{}` and `{}` would both be written to `{}`; write them to two folders",
                other.display(),
                file.path.display(),
                to.display(),
            );
            return Err(Error::option("files", reason));
        }
        if to.symlink_metadata().is_ok() {
            return Err(Error::output(
                to,
                "is there already; remove it, or write to another folder",
            ));
        }
        targets.push(to);
    }
    Ok(targets)
}

/// The name of the file that is written.
fn target_name(file: &SourceFile, control: &Control) -> Result<String> {
    let name = name_of(&file.path);
    let compression = file.format.compression;
    match file.format.container {
        Container::Parquet | Container::Arrow if compression.is_none() => Ok(name),
        Container::Lines | Container::Json if !is_array(file, control)? => {
            let ending = compression.map(|compression| format!(".{}", compression.ending()));
            let plain = ending.as_deref().and_then(|ending| name.strip_suffix(ending));
            let plain = plain.unwrap_or(&name);
            let is_named = plain.contains('.');
            Ok(format!("{plain}{}.zst", if is_named { "" } else { ".jsonl" }))
        }
        Container::Mds if compression.is_none() => {
            let reason = format!("`{}` is entered at any record as it is", file.path.display());
            Err(Error::option("files", reason))
        }
        _ => {
            let reason = format!(
                "`{}` is {}, which a stream reads from its beginning however it is written: {}; write its records as \
                 JSON Lines, Parquet or Arrow, which are entered in the middle",
                file.path.display(),
                file.format,
                why_whole(file),
            );
            Err(Error::option("files", reason))
        }
    }
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
