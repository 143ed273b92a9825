//! Chooses the files of a folder that hold records.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::source::formats::format::{Container, by_name, holds_records};
use crate::storage::Location;
use crate::util::control::Control;
use crate::util::wording::{message, set};

/// Extensions of data that fastpack does not read: an error for a named file, a mention in the report for one
/// in a folder.
const OTHER_DATA: [&str; 6] = ["7z", "lz4", "msgpack", "rar", "tar", "zip"];

/// Extensions of copies, unfinished files and logs.
const BY_PRODUCTS: [&str; 7] = ["bak", "incomplete", "log", "orig", "part", "temp", "tmp"];

/// The formats that are found in a folder, for messages.
pub(crate) const FORMATS: &str =
    ".jsonl, .json, .parquet, .arrow, .cbor, .mds, .csv, .tsv, .txt or .md";

/// Refuses a named file of a format that is not read.
pub(crate) fn refuse_other_data(path: &Path) -> Result<()> {
    if !other_data(path) {
        return Ok(());
    }
    let reason = format!(
        "`{}` is of a format that is not read; turn it into one of {FORMATS}, compressed or not",
        path.display()
    );
    Err(Error::option("files", reason))
}

/// The files of a folder that hold records, of all its files; the others are passed over.
pub(crate) fn data_of_folder(
    dir: &Path,
    entries: Vec<Location>,
    recursive: bool,
    passed_over: &mut Vec<PathBuf>,
    control: &Control,
) -> Result<Vec<Location>> {
    let (mut files, mut texts) = (Vec::new(), Vec::new());
    for location in entries {
        control.tick()?;
        let path = location.name();
        match by_name(path) {
            (Some(Container::Text), _) => texts.push(location),
            (Some(Container::Json), None) if !holds_records(&location, control)? => {
                passed_over.push(path.to_path_buf());
            }
            (None, _) if !is_data(&location, control)? => {
                // Other tools leave empty files as marks, such as `_SUCCESS`.
                if location.stat().map_err(Error::io(&**path))?.size > 0 {
                    passed_over.push(path.to_path_buf());
                }
            }
            _ => files.push(location),
        }
    }
    if files.is_empty() {
        files = texts;
    } else {
        passed_over.extend(texts.iter().map(|text| text.name().to_path_buf()));
    }
    if files.is_empty() {
        let reason = format!("`{}` holds no file of records ({FORMATS})", dir.display());
        return Err(Error::option(
            "files",
            if recursive {
                message![reason]
            } else {
                message![reason, "; ", set("reading.recursive", true), " looks into its folders"]
            },
        ));
    }
    passed_over.sort_unstable();
    Ok(files)
}

/// True if a file of a folder without a known extension holds records.
///
/// Files whose names begin with an underscore do not count, since tools put them beside data by custom; nor do copies
/// and unfinished files. A file of the local disk that cannot be opened does not count either, since it was not named.
fn is_data(location: &Location, control: &Control) -> Result<bool> {
    if is_by_product(location.name()) {
        return Ok(false);
    }
    match holds_records(location, control) {
        Err(error) if matches!(error, Error::Cancelled) || location.is_remote() => Err(error),
        found => Ok(found.unwrap_or(false)),
    }
}

/// True if a file without a known extension is no data by its name.
pub(crate) fn is_by_product(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
    name.starts_with(b"_")
        || name.ends_with(b"~")
        || ending(path).is_some_and(|ending| BY_PRODUCTS.contains(&ending))
        // `data.jsonl.1` is a rotated `data.jsonl`.
        || path.file_stem().is_some_and(|stem| by_name(Path::new(stem)).0.is_some())
        || other_data(path)
}

fn ending(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

fn other_data(path: &Path) -> bool {
    ending(path).is_some_and(|ending| OTHER_DATA.contains(&ending))
}
