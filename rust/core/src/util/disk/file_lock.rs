//! [`FileLock`]: an open file whose lock ends when this is dropped, whatever a forked process has inherited.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::process;

/// An open file that this process locks.
///
/// The system releases a lock once every copy of the open file is closed, and a process that is forked meanwhile has a copy,
/// which it does not know of and never closes. So the lock is released by name, in the process that took it.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
    /// The process that opened the file. A forked one must not release its lock.
    process: u32,
}

impl From<File> for FileLock {
    fn from(file: File) -> Self {
        Self { file, process: process::id() }
    }
}

impl Deref for FileLock {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for FileLock {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.process == process::id() {
            // Where the file system has no locks, there is none to release.
            let _ = self.file.unlock();
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_a_forked_process_has_keeps_no_lock() {
        let file = tempfile::NamedTempFile::new().expect("room");
        let open = || FileLock::from(File::open(file.path()).expect("the file"));
        let held = open();
        held.try_lock().expect("nobody else has it");
        let _inherited = held.try_clone().expect("a copy");
        assert!(open().try_lock().is_err());
        drop(held);
        open().try_lock().expect("it was released");
    }

    #[test]
    fn a_forked_process_does_not_release_the_lock_of_its_parent() {
        let file = tempfile::NamedTempFile::new().expect("room");
        let open = || FileLock::from(File::open(file.path()).expect("the file"));
        let held = open();
        held.try_lock().expect("nobody else has it");
        let file = held.try_clone().expect("a copy");
        drop(FileLock { file, process: 0 });
        assert!(open().try_lock().is_err());
    }
}
