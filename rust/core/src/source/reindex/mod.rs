//! [`reindex`]: rewrites files so that a stream can enter them in the middle.
//!
//! Line files become zstd files of small frames with a seek table, whatever their compression. Parquet and Arrow files are
//! written again with small row groups and record batches. The records, their order and their lines stay.

mod lines;
mod part;
mod tables;

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::decompressed_input::InputBytes;
use super::discovery::discover::discover;
use super::discovery::found::{FoundFiles, SourceFile, shared_folder};
use super::extents::line_extent::{beginning, text_of};
use super::formats::format::Container;
use super::sizes::PEEKED;
use crate::config::Inputs;
use crate::error::{Error, Result};
use crate::util::control::{Control, Phase};
use crate::util::disk::removal::Temporary;

/// A file that was written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reindexed {
    /// The file that was read.
    pub from: PathBuf,
    /// The file that was written.
    pub to: PathBuf,
    /// The bytes of the file that was read.
    pub bytes_read: u64,
    /// The bytes of the file that was written.
    pub bytes_written: u64,
    /// The frames, row groups or record batches of the file that was written.
    pub parts: u64,
}

/// The destination of rewritten files, from the folder in which they were written.
pub trait Onward {
    /// Takes the names of all files in the folder, with `/` between their parts, before any is written.
    fn begin(&mut self, names: &[String]) -> Result<()>;

    /// Takes the bytes of the file with this name, which is removed then. Returns where they are.
    fn send(&mut self, name: &str) -> Result<PathBuf>;
}

/// Rewrites the files of `inputs` into the folder `dir`, where each keeps its place below the common folder of all.
///
/// A file appears when it is whole, and goes on from there if `onward` says so. Files of other formats, and files that are there, are refused before anything is
/// written.
///
/// # Errors
///
/// [`Error::Option`] for a file of a format that a stream reads as a whole, [`Error::Output`] for a file that is there,
/// [`Error::Record`] for a damaged file, and [`Error::Io`].
pub fn reindex(
    inputs: &Inputs,
    dir: &Path,
    mut onward: Option<&mut dyn Onward>,
    control: &Control,
) -> Result<Vec<Reindexed>> {
    let found = discover(inputs, control)?;
    let targets = targets(&found, dir, control)?;
    if let Some(onward) = &mut onward {
        let names: Vec<String> = targets.iter().map(|to| name_in(dir, to)).collect();
        onward.begin(&names)?;
    }
    control.enter(Phase::Tokenize);
    control.expect_bytes(found.bytes());
    let mut done = Vec::with_capacity(targets.len());
    for (file, to) in found.files.iter().zip(targets) {
        let parent = to.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
        let hidden = to.with_file_name(format!(".{}", name_of(&to)));
        let created = match onward {
            // It is removed once it is elsewhere.
            Some(_) => Temporary::create(to.clone()),
            None => Temporary::unnamed(&hidden, ".new"),
        };
        let (new, out) = created.map_err(Error::io(&*hidden))?;
        let (parts, bytes_written) = write(file, (new.path(), out), control)?;
        let to = if let Some(onward) = &mut onward {
            onward.send(&name_in(dir, &to))?
        } else {
            new.place(&to).map_err(Error::io(&*to))?;
            to
        };
        done.push(Reindexed {
            from: file.path.to_path_buf(),
            to,
            bytes_read: file.size,
            bytes_written,
            parts,
        });
    }
    Ok(done)
}

/// The name of a file in the folder, with `/` between its parts.
fn name_in(dir: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(dir).unwrap_or(path).components();
    let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// The path of each file in the folder.
fn targets(found: &FoundFiles, dir: &Path, control: &Control) -> Result<Vec<PathBuf>> {
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

/// True if [`reindex`] surely divides files like this one, of so many bytes together, into so many parts: a part has more bytes
/// before it is compressed.
pub(crate) fn can_be_divided(file: &SourceFile, bytes: u64, parts: u64) -> bool {
    can_be_reindexed(file) && bytes / part::PART as u64 >= parts
}

/// True if [`reindex`] takes a file; also for a compressed array of JSON, which shows when it is decoded.
fn can_be_reindexed(file: &SourceFile) -> bool {
    match file.format.container {
        Container::Parquet | Container::Arrow => file.format.compression.is_none(),
        Container::Lines => true,
        Container::Json => {
            let start = beginning(&file.location);
            !start.is_ok_and(|start| text_of(&start).starts_with(b"["))
        }
        _ => false,
    }
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

/// The reason why a file of this kind is not entered in the middle.
fn why_whole(file: &SourceFile) -> &'static str {
    match file.format.container {
        Container::Csv | Container::Tsv => {
            "a quote far before a line break decides whether a record ends there"
        }
        Container::Text => "it is one text, or its separator may stand anywhere",
        Container::Lines | Container::Json => {
            "in an array, a quote far before a comma decides whether a record ends there"
        }
        Container::Cbor => "an item ends where its bytes from the beginning say so",
        Container::Parquet | Container::Arrow | Container::Mds => "it is compressed as a whole",
        Container::Records => "its records are found from its beginning",
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// True if a file of JSON is one array.
fn is_array(file: &SourceFile, control: &Control) -> Result<bool> {
    if file.format.container != Container::Json {
        return Ok(false);
    }
    let mut input = InputBytes::open(&file.location, file.format.compression)?;
    Ok(text_of(input.peek(PEEKED, control)?).starts_with(b"["))
}

/// Writes a file again, and returns its parts and bytes.
fn write(
    file: &SourceFile,
    (new, mut out): (&Path, File),
    control: &Control,
) -> Result<(u64, u64)> {
    let parts = match file.format.container {
        Container::Parquet => tables::write_parquet(file, new, &mut out, control),
        Container::Arrow => tables::write_arrow(file, new, &mut out, control),
        _ => lines::write(file, new, &mut out, control),
    }?;
    file.unchanged()?;
    control.count_block(file.size, 0, 0);
    let synced = |out: File| -> std::io::Result<u64> {
        out.sync_all()?;
        Ok(out.metadata()?.len())
    };
    Ok((parts, synced(out).map_err(Error::io(new))?))
}
