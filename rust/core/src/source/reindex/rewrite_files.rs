//! [`reindex`]: writes files again, each in parts that a stream can enter.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::rewritten_names::{name_of, targets};
use super::{lines, tables};
use crate::config::Inputs;
use crate::error::{Error, Result};
use crate::source::discovery::discover::discover;
use crate::source::discovery::found::SourceFile;
use crate::source::formats::format::Container;
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
pub trait RewriteDestination {
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
    mut destination: Option<&mut dyn RewriteDestination>,
    control: &Control,
) -> Result<Vec<Reindexed>> {
    let found = discover(inputs, control)?;
    let targets = targets(&found, dir, control)?;
    if let Some(destination) = &mut destination {
        let names: Vec<String> = targets.iter().map(|to| name_in(dir, to)).collect();
        destination.begin(&names)?;
    }
    control.enter(Phase::Tokenize);
    control.expect_bytes(found.bytes());
    let mut done = Vec::with_capacity(targets.len());
    for (file, to) in found.files.iter().zip(targets) {
        let parent = to.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
        let hidden = to.with_file_name(format!(".{}", name_of(&to)));
        let created = match destination {
            // It is removed once it is elsewhere.
            Some(_) => Temporary::create(to.clone()),
            None => Temporary::unnamed(&hidden, ".new"),
        };
        let (new, out) = created.map_err(Error::io(&*hidden))?;
        let (parts, bytes_written) = write(file, new.path(), out, control)?;
        let to = if let Some(destination) = &mut destination {
            destination.send(&name_in(dir, &to))?
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

/// Writes a file again, and returns its parts and bytes.
fn write(file: &SourceFile, new: &Path, mut out: File, control: &Control) -> Result<(u64, u64)> {
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
