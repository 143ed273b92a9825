//! [`LockRecord`]: the content of the lock of a whole file in a `BlockCache`, which shows that the file is fastpack's.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular::{self, Links, is_at};
use crate::util::disk::removal::{Claim, Disk, Evidence, Stamp, prove, remove_file};

/// The ending of the name of a lock.
const LOCK: &str = "lock";

/// The most bytes of a lock: a name and two numbers of a file.
const MOST: u64 = 1 << 10;

/// The content of a lock: the name and the state of its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LockRecord {
    /// The name of the file.
    pub(super) name: String,
    pub(super) state: LockState,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LockState {
    /// Nobody has begun to fetch it.
    Missing,
    /// Nothing had its name when a process began to fetch it.
    Fetching,
    /// It was whole, with this stamp.
    Whole(String),
}

/// The word for a file that is being fetched.
const FETCHING: &str = "fetching";

impl LockRecord {
    /// Reads the content of a lock.
    pub(super) fn read(lock: &mut File) -> io::Result<Self> {
        lock.rewind()?;
        let mut text = String::new();
        Read::by_ref(lock).take(MOST).read_to_string(&mut text)?;
        let mut lines = text.lines();
        let name = lines.next().unwrap_or_default().to_owned();
        let state = match lines.next() {
            None => LockState::Missing,
            Some(FETCHING) => LockState::Fetching,
            Some(stamp) => LockState::Whole(stamp.to_owned()),
        };
        Ok(Self { name, state })
    }

    pub(super) fn write(&self, lock: &mut File) -> io::Result<()> {
        let state = match &self.state {
            LockState::Missing => String::new(),
            LockState::Fetching => format!("{FETCHING}\n"),
            LockState::Whole(stamp) => format!("{stamp}\n"),
        };
        let text = format!("{}\n{state}", self.name);
        lock.rewind()?;
        lock.write_all(text.as_bytes())?;
        // Bytes behind the new text stay if the process is killed here, and are not read.
        lock.set_len(text.len() as u64)
    }
}

impl Evidence<Disk> for LockRecord {
    /// The file that the lock names: as it was when it was whole, or the one that is being fetched.
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let is_ours = |stamp: &Stamp| match &self.state {
            LockState::Missing => false,
            LockState::Fetching => true,
            LockState::Whole(whole) => *whole == stamp.to_text(),
        };
        let found = Stamp::at(path).filter(|stamp| self.name == name_of(path) && is_ours(stamp));
        found.map_or(Claim::None, Claim::Version)
    }
}

/// A lock by its open file, held alone.
struct OwnLock<'a>(&'a File, &'a LockRecord);

impl Evidence<Disk> for OwnLock<'_> {
    /// The lock that has the name of its file in it.
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let is_own = lock_of(&path.with_file_name(&self.1.name)) == *path;
        let is_here = is_own && is_at(self.0, path).unwrap_or(false);
        if is_here { Stamp::at(path).map_or(Claim::None, Claim::Version) } else { Claim::None }
    }
}

/// Removes a file and its lock, unless somebody holds it or it is not fastpack's. Returns whether it takes no more room of the
/// cache: a file of somebody else takes none.
pub(super) fn remove_unheld(path: &Path) -> bool {
    let lock_path = lock_of(path);
    let Ok(file) = regular::open(&lock_path, Links::Refused) else { return true };
    let mut lock = FileLock::from(file);
    if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        return false;
    }
    let Ok(record) = LockRecord::read(&mut lock) else { return true };
    let Some(proof) = prove(&record, &path.to_owned()) else { return true };
    if remove_file(proof).is_err() {
        return false;
    }
    if let Some(proof) = prove(&OwnLock(&lock, &record), &lock_path) {
        // An empty lock does no harm.
        let _ = remove_file(proof);
    }
    true
}

/// The time at which a file of the cache was last asked for; `None` for a file that has no lock.
pub(super) fn used(path: &Path) -> Option<SystemTime> {
    if path.extension()? == LOCK {
        return None;
    }
    lock_of(path).symlink_metadata().ok()?.modified().ok()
}

/// True if the file of a held lock is whole, and as it was when it was locked.
pub(super) fn is_whole(lock: &mut File, path: &Path, bytes: u64) -> io::Result<bool> {
    let record = LockRecord::read(lock)?;
    let is_sized = path.symlink_metadata().is_ok_and(|found| found.len() == bytes);
    Ok(is_sized
        && matches!(record.state, LockState::Whole(_))
        && prove(&record, &path.to_owned()).is_some())
}

pub(super) fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{LOCK}"));
    PathBuf::from(name)
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
