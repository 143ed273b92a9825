//! [`Lock`]: the work folder and the lock in it, which the system releases when its process dies.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::file_names::{BEGUN, LOCK, SHARDS, STARTED, WORK};
use crate::sink::shared_failure::SharedFailure;
use crate::sink::work_names::{self, WrittenNames};
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular::{self, Links, is_at};
use crate::util::disk::removal::{
    Claim, Disk, Evidence, Stamp, prove, remove_empty, remove_file, replace_file,
};
use crate::util::disk::sealed;
use crate::util::wording::{message, set};

/// The most bytes of a failure message: a few names and a text.
const MOST: u64 = 1 << 20;

/// The interval at which a waiting run checks the lock.
const POLL: Duration = Duration::from_millis(20);

/// A work folder that only this run uses, until this is dropped.
///
/// When dropped, it removes the folder if it is empty.
#[derive(Debug)]
pub(crate) struct Lock {
    work: PathBuf,
    /// The lock belongs to the open file, not to its name.
    file: FileLock,
}

impl Lock {
    /// Creates the work folder in `dir` and locks it.
    ///
    /// If another run holds the lock, waits for its end if `wait` is true. An error of that run is returned
    /// if it ran the same job, by its name. If it was killed or cancelled, this run takes the folder. Fails
    /// with [`Error::Output`] if it must not wait. On a file system without locks, two runs at a time are not
    /// detected.
    ///
    /// Also returns whether it waited.
    pub(crate) fn take(
        dir: &Path,
        job: Option<&str>,
        wait: bool,
        control: &Control,
    ) -> Result<(Self, bool)> {
        let work = dir.join(WORK);
        let path = work.join(LOCK);
        let mut waited = false;
        loop {
            control.tick()?;
            match fs::create_dir(&work) {
                // The run that held the lock has failed, and has just removed the output folder that it made.
                Err(error) if waited && error.kind() == ErrorKind::NotFound => {
                    fs::create_dir_all(dir).map_err(Error::io(dir))?;
                    continue;
                }
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io(work)(error));
                }
                Err(_) => refuse_no_folder(dir)?,
                Ok(()) => {}
            }
            let mut file = match regular::open_to_write(&path) {
                Ok(file) => FileLock::from(file),
                // The run that held the lock has just removed the folder.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    return Err(work_names::foreign(dir, LOCK));
                }
                Err(error) => return Err(Error::io(path)(error)),
            };
            loop {
                match file.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::WouldBlock) if wait => {
                        control.tick()?;
                        waited = true;
                        thread::sleep(POLL);
                    }
                    Err(TryLockError::WouldBlock) => return Err(busy_error(dir)),
                    Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                        break;
                    }
                    Err(TryLockError::Error(error)) => return Err(Error::io(path)(error)),
                }
            }
            let left = left_in(&mut file).map_err(Error::io(&path))?;
            if is_at(&file, &path).map_err(Error::io(&path))? {
                if matches!(left, LockContent::Other) {
                    return Err(work_names::foreign(dir, LOCK));
                }
                // A run was killed while it wrote its failure. The message is incomplete.
                file.set_len(0).map_err(Error::io(&path))?;
                return Ok((Self { work, file }, waited));
            }
            if let LockContent::Message(word) = left
                && Some(word.job.as_str()) == job
            {
                return Err(word.failure.into_error(dir));
            }
        }
    }

    /// The work folder.
    pub(crate) fn work(&self) -> &Path {
        &self.work
    }

    /// Tells the waiting runs the error of this run. They have the same file open, even after it is removed.
    pub(crate) fn publish_failure(&mut self, job: String, failure: SharedFailure) {
        // If the message cannot be written, the waiting runs run the job themselves.
        let _ = self.file.set_len(0);
        let _ = self.file.rewind();
        let _ = self.file.write_all(sealed::seal(&LockMessage { job, failure }).as_bytes());
    }

    /// The files of `job` in the work folder.
    pub(crate) fn files<'a>(&'a self, job: &'a Identity) -> WorkFiles<'a> {
        WorkFiles { work: &self.work, job, written: OnceCell::new() }
    }

    /// Removes all files of `job` from the work folder but the lock and those that `kept` accepts by name. The records of shards and
    /// that of the started job go last, because they say whose the other files are.
    pub(crate) fn clear(&self, job: &Identity, kept: impl Fn(&str) -> bool) -> Result<()> {
        let mut last = [None, None, None];
        let files = self.files(job);
        let remove = |path: PathBuf| -> Result<()> {
            let Some(proof) = prove(&files, &path) else { return Ok(()) };
            remove_file(proof).map(drop).map_err(Error::io(path))
        };
        for entry in fs::read_dir(&self.work).map_err(Error::io(&self.work))? {
            let path = entry.map_err(Error::io(&self.work))?.path();
            let stays = |name: &OsStr| name == LOCK || name.to_str().is_some_and(&kept);
            if path.file_name().is_some_and(stays) {
                continue;
            }
            match [BEGUN, SHARDS, STARTED].iter().position(|name| path.ends_with(name)) {
                Some(at) => last[at] = Some(path),
                None => remove(path)?,
            }
        }
        last.into_iter().flatten().try_for_each(remove)
    }
}

/// The files of a job in a work folder that this run has locked.
#[derive(Debug)]
pub(crate) struct WorkFiles<'a> {
    work: &'a Path,
    job: &'a Identity,
    /// The files that runs have written there, read at the first request.
    written: OnceCell<WrittenNames>,
}

impl WorkFiles<'_> {
    /// Renames a file to `name` in the work folder, over one of this job if there is one.
    pub(crate) fn rename_into(&self, from: &Path, name: &str) -> Result<()> {
        let to = self.work.join(name);
        match prove(self, &to) {
            Some(proof) => replace_file(from, &proof),
            None => regular::rename(from, &to),
        }
        .map_err(Error::io(to))
    }
}

impl Evidence<Disk> for WorkFiles<'_> {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let name = path.file_name().and_then(OsStr::to_str);
        let is_inside = path.parent() == Some(self.work) && Stamp::at(path).is_some();
        let written = || self.written.get_or_init(|| WrittenNames::find(self.work, self.job));
        let is_ours = is_inside && name.is_some_and(|name| written().has(name));
        if is_ours { Claim::Name } else { Claim::None }
    }
}

impl Evidence<Disk> for Lock {
    /// The file that is locked.
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let is_lock = *path == self.work.join(LOCK) && is_at(&self.file, path).unwrap_or(false);
        if is_lock { Claim::Name } else { Claim::None }
    }
}

/// A work folder that several runs of one job use at a time, until this is dropped. No run takes the [`Lock`]
/// meanwhile.
#[derive(Debug)]
pub(crate) struct SharedLock {
    /// It stays when it is unlocked: others may hold it.
    _file: FileLock,
    /// True if the file system has locks.
    pub(crate) is_held: bool,
}

impl SharedLock {
    /// Shares the work folder in `dir`; `None` if there is none.
    ///
    /// Waits for a run that has the folder alone if `wait` is true, and fails with [`Error::Busy`] otherwise.
    pub(crate) fn take(dir: &Path, wait: bool, control: &Control) -> Result<Option<Self>> {
        let path = dir.join(WORK).join(LOCK);
        loop {
            control.tick()?;
            refuse_no_folder(dir)?;
            let file = match regular::open_to_write(&path) {
                Ok(file) => FileLock::from(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    return Err(work_names::foreign(dir, LOCK));
                }
                Err(error) => return Err(Error::io(path)(error)),
            };
            let is_held = match file.try_lock_shared() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) if wait => {
                    thread::sleep(POLL);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(busy_error(dir)),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => false,
                Err(TryLockError::Error(error)) => return Err(Error::io(path)(error)),
            };
            if is_at(&file, &path).map_err(Error::io(&path))? {
                return Ok(Some(Self { _file: file, is_held }));
            }
        }
    }
}

/// True if a run has the work folder `work` for itself.
pub(crate) fn is_taken(work: &Path) -> bool {
    is_locked(&work.join(LOCK))
}

/// True if a process holds the lock of the file at `path` alone.
pub(crate) fn is_locked(path: &Path) -> bool {
    let Ok(file) = regular::open(path, Links::Refused).map(FileLock::from) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A failure has nobody to be reported to, and an empty work folder does no harm.
        if let Some(proof) = prove(self, &self.work.join(LOCK)) {
            let _ = remove_file(proof);
        }
        let _ = remove_empty(&self.work);
    }
}

/// The failure of a run, for the runs that wait.
#[derive(Debug, Serialize, Deserialize)]
struct LockMessage {
    /// The name of its job.
    job: String,
    failure: SharedFailure,
}

/// The content of the lock file.
enum LockContent {
    /// Nothing, or a message that is incomplete or has changed.
    Nothing,
    /// The message of the failed run that held the lock before.
    Message(LockMessage),
    /// Bytes that no run wrote.
    Other,
}

fn left_in(file: &mut File) -> io::Result<LockContent> {
    let mut text = Vec::new();
    file.rewind()?;
    Read::by_ref(file).take(MOST).read_to_end(&mut text)?;
    Ok(match serde_json::from_slice(&text) {
        Ok(word) if sealed::is_whole(&text) => LockContent::Message(word),
        _ if sealed::is_torn(&text) => LockContent::Nothing,
        _ => LockContent::Other,
    })
}

/// Fails with [`Error::Output`] if the work folder of `dir` is not a folder, or is a link to one: its files
/// would not be in the output folder.
pub(crate) fn refuse_no_folder(dir: &Path) -> Result<()> {
    let what = match dir.join(WORK).symlink_metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(found) if found.is_symlink() => "a symbolic link",
        Ok(_) => "no folder",
        // It has just been removed, or does not exist.
        Err(_) => return Ok(()),
    };
    let reason = format!(
        "holds `{WORK}`, which is {what}, where runs have their work folder; move it away, or write to another folder"
    );
    Err(Error::output(dir, reason))
}

/// The error for a folder that another run writes to.
pub(crate) fn busy_error(dir: &Path) -> Error {
    let reason = message![
        "another run is writing here; pass ",
        set("exists.wait", true),
        " to wait for it, or write to another folder",
    ];
    Error::Busy { path: dir.to_owned(), reason }
}
