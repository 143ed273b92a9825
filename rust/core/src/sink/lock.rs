//! [`Lock`]: the work folder and the lock in it, which the system lets go when a process dies.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The folder in the output folder that a run works in.
pub(super) const WORK: &str = ".fastpack";

/// The name of the lock file in it.
const LOCK: &str = "lock";

/// How often a lock is tried again that another run removed between our opening and locking it.
const ATTEMPTS: usize = 16;

/// A work folder that this run alone uses, for as long as this lives.
///
/// Dropped, it removes the folder unless something is left in it.
#[derive(Debug)]
pub(super) struct Lock {
    work: PathBuf,
    /// Locked by the open file, not by its name: what unlocks is closing it, however that happens.
    _file: File,
}

impl Lock {
    /// Makes the work folder in `dir` and locks it.
    ///
    /// Fails with [`Error::Output`] if another run has it. A file system that knows no locks gives none, and
    /// then two runs at a time are not found out.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        let work = dir.join(WORK);
        let path = work.join(LOCK);
        for _ in 0..ATTEMPTS {
            fs::create_dir_all(&work).map_err(Error::io(&work))?;
            let options = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
            let file = match options {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io(path)(error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(taken(dir)),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(Error::io(path)(error)),
            }
            if is_at(&file, &path).map_err(Error::io(&path))? {
                return Ok(Self { work, _file: file });
            }
        }
        Err(taken(dir))
    }

    /// The work folder.
    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// Empties the work folder of everything but the lock and the file `kept`.
    pub(super) fn clear(&self, kept: Option<&str>) -> Result<()> {
        for entry in fs::read_dir(&self.work).map_err(Error::io(&self.work))? {
            let path = entry.map_err(Error::io(&self.work))?.path();
            let stays = |name: &OsStr| name == LOCK || kept.is_some_and(|kept| name == kept);
            if !path.file_name().is_some_and(stays) {
                fs::remove_file(&path).map_err(Error::io(&path))?;
            }
        }
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody is there to hear of a failure, and an empty work folder is in nobody's way.
        let _ = fs::remove_file(self.work.join(LOCK));
        let _ = fs::remove_dir(&self.work);
    }
}

fn taken(dir: &Path) -> Error {
    Error::Output {
        path: dir.to_owned(),
        reason: "another run is writing here; wait until it ends, or write to another folder"
            .to_owned(),
    }
}

/// Whether `file` is still the one at `path`: the run that had it before may have removed it.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok(ours.dev() == there.dev() && ours.ino() == there.ino()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether `file` is still the one at `path`: elsewhere an open file cannot be removed.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}
