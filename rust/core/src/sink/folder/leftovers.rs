//! [`Leftovers`]: the files of an unfinished run in the work folder.

use std::fs::{self, DirEntry};
use std::io::Read;
use std::path::Path;

use super::own_files::OwnFiles;
use crate::error::{Error, Result};
use crate::sink::file_names::{
    GROUPS, GROUPS_REMOVED, LOCK, MANIFEST, REPLACED, STARTED, STARTED_NEW, WORK,
};
use crate::sink::manifest::Manifest;
use crate::sink::work_names::{WrittenNames, foreign};
use crate::util::control::Control;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::sealed;

/// The files of an unfinished run in the work folder.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// The job of that run.
    pub(crate) started: Option<Manifest>,
    /// The manifest of the output that it was placing, if it got that far.
    pub(crate) placing: Option<Manifest>,
    /// The manifest of the output that it was replacing, if it got that far.
    pub(crate) replaced: Option<Manifest>,
}

impl Leftovers {
    /// Reads the work folder of the output folder `dir`.
    ///
    /// The work folder belongs to fastpack if its record of the started job is whole, or if it has no other
    /// file yet. Fails with [`Error::Output`] otherwise, or if it holds other files: they would be removed.
    pub(crate) fn find(dir: &Path) -> Result<Self> {
        let work = dir.join(WORK);
        let started = Manifest::read(&work.join(STARTED), Links::Refused)?;
        if started.is_none() && work.join(STARTED).symlink_metadata().is_ok() {
            return Err(unread(dir, STARTED)?);
        }
        let written = started.as_ref().map(|started| WrittenNames::find(&work, &started.job));
        for entry in fs::read_dir(&work).map_err(Error::io(&work))? {
            let entry = entry.map_err(Error::io(&work))?;
            let ours = entry.file_type().is_ok_and(|it| it.is_file())
                && entry.file_name().to_str().is_some_and(|name| match &written {
                    Some(written) => written.has(name),
                    None => name == LOCK || (name == STARTED_NEW && is_torn(&entry)),
                });
            let is_groups = [GROUPS, GROUPS_REMOVED].iter().any(|name| entry.file_name() == *name)
                && entry.file_type().is_ok_and(|it| it.is_dir())
                && started.as_ref().is_some_and(|started| started.job.is_grouped());
            if !ours && !is_groups {
                return Err(foreign(dir, &entry.file_name().to_string_lossy()));
            }
        }
        let read = |name| -> Result<Option<Manifest>> {
            let found = Manifest::read(&work.join(name), Links::Refused)?;
            if found.is_none() && work.join(name).symlink_metadata().is_ok() {
                return Err(unread(dir, name)?);
            }
            Ok(found)
        };
        match started {
            None => Ok(Self::default()),
            started => Ok(Self { started, placing: read(MANIFEST)?, replaced: read(REPLACED)? }),
        }
    }

    /// The files in the output folder `dir` that fastpack wrote: first the remains of an output that was
    /// being placed or replaced, then the finished output with the names of all other files.
    pub(crate) fn owned(&self, dir: &Path, control: &Control) -> Result<(OwnFiles, OwnFiles)> {
        let finished = Manifest::read(&dir.join(MANIFEST), Links::Refused)?;
        let remains = self.placing.iter().chain(&self.replaced);
        OwnFiles::find(dir, finished.as_ref(), &remains.collect::<Vec<_>>(), control)
    }
}

/// The fault of a record in the work folder that cannot be read: another version of fastpack wrote it, or it has changed.
fn unread(dir: &Path, name: &str) -> Result<Error> {
    let fault = Manifest::fault_of_version(dir, &format!("{WORK}/{name}"), Links::Refused)?;
    Ok(fault.map_or_else(
        || foreign(dir, name),
        |fault| {
            Error::output(dir, format!("{fault}; move `{WORK}` away, or write to another folder"))
        },
    ))
}

/// True if a file is the record of a started job that was killed while writing it.
fn is_torn(entry: &DirEntry) -> bool {
    let mut text = Vec::new();
    let begin = |file: fs::File| file.take(sealed::SHORT).read_to_end(&mut text);
    regular::open(&entry.path(), Links::Refused).and_then(begin).is_ok() && sealed::is_torn(&text)
}
