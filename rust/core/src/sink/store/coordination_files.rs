//! [`RecordStore`] and [`HeldLock`]: the small files and locks by which the processes of a job with groups know of each other.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;

/// The records and locks of the groups of a job, each in its own small file or object.
pub(crate) trait RecordStore: fmt::Debug + Send + Sync {
    /// The sealed text of a record; `None` if there is none, or one that has changed.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Writes a record whole, or not at all, over one of that name if there is one.
    fn write(&self, name: &str, text: &str) -> Result<()>;

    /// Removes a record, if there is one.
    fn remove(&self, name: &str) -> Result<()>;

    /// All records and locks.
    fn list(&self) -> Result<Vec<ListedRecord>>;

    /// True if a process that lives holds a lock.
    fn is_held(&self, lock: &ListedRecord) -> bool;

    /// True if a process that lives has the whole output for itself.
    fn is_locked(&self) -> Result<bool>;
}

/// A record or a lock in a list.
#[derive(Debug)]
pub(crate) struct ListedRecord {
    pub(crate) name: String,
    /// When it was written, in nanoseconds since 1970 by the clock of the store; 0 where locks are told otherwise.
    pub(crate) written: u64,
}

/// A lock that this process holds until this is dropped.
pub(crate) trait HeldLock: fmt::Debug + Send + Sync {
    /// Fails with [`Error::Busy`](crate::error::Error::Busy) if another process has taken it.
    fn check(&self, control: &Control) -> Result<()>;
}

/// The result of work under a lock. If another process has taken the lock meanwhile, what it did there may have made the work
/// fail in any way, so the error says that.
pub(crate) fn explained<T>(hold: &dyn HeldLock, result: Result<T>, control: &Control) -> Result<T> {
    result.map_err(|error| hold.check(control).err().unwrap_or(error))
}

/// The system takes the lock of an open file from no process that lives.
impl HeldLock for FileLock {
    fn check(&self, control: &Control) -> Result<()> {
        control.tick()
    }
}

/// The object in a record; `None` if there is none, or one that has changed.
pub(crate) fn object<T: DeserializeOwned>(
    records: &dyn RecordStore,
    name: &str,
) -> Result<Option<T>> {
    Ok(records.read(name)?.and_then(|text| serde_json::from_slice(&text).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[derive(Debug)]
    struct FakeHold {
        is_lost: bool,
    }

    impl HeldLock for FakeHold {
        fn check(&self, _: &Control) -> Result<()> {
            let lost = || Err(Error::Busy { path: "packed".into(), reason: "was taken".into() });
            if self.is_lost { lost() } else { Ok(()) }
        }
    }

    #[test]
    fn work_that_fails_once_the_lock_is_lost_says_that() {
        let failed = || Err::<(), _>(Error::option("shards", "are gone"));
        let control = Control::default();
        let lost = explained(&FakeHold { is_lost: true }, failed(), &control);
        assert!(matches!(lost, Err(Error::Busy { .. })), "{lost:?}");
        let held = explained(&FakeHold { is_lost: false }, failed(), &control);
        assert!(matches!(held, Err(Error::Option { .. })), "{held:?}");
        assert!(explained(&FakeHold { is_lost: true }, Ok(()), &control).is_ok());
    }
}
