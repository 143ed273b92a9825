//! [`Writeback`]: background writeback of a file that is still being written.
//!
//! Without it the whole file waits in memory until its end, and then the writer waits for the disk.

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::util::start_thread;

/// Bytes between two syncs. A loss of power loses as many, and those that are written while a sync is at work.
const STEP: u64 = 32 << 20;

/// A background thread that syncs a file. It is started once there is enough to sync.
///
/// It ends when this is dropped. Only [`Writeback::finish`] waits for it: a cancelled call must not wait for the
/// disk.
#[derive(Debug)]
pub(crate) struct Writeback {
    /// The treatment of synced bytes in memory from now on.
    pub(crate) cache_policy: CachePolicy,
    /// The offset up to which the thread was told to sync.
    requested: u64,
    worker: Option<SyncThread>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

/// The thread, and the channel that tells it how far to sync.
#[derive(Debug)]
struct SyncThread {
    requests: SyncSender<(u64, CachePolicy)>,
    thread: JoinHandle<()>,
}

/// The treatment of bytes in memory once they are on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// It keeps them: they will be read soon.
    Keep,
    /// It frees them for the next ones: the files may be larger than memory, and should not
    /// displace the caches of other programs.
    Release,
}

impl Writeback {
    /// For a file whose first `end` bytes are on the disk.
    pub(crate) fn new(end: u64, cache_policy: CachePolicy) -> Self {
        Self { cache_policy, requested: end, worker: None, failure: Arc::default() }
    }

    /// Reports that `file` was written up to `end`.
    ///
    /// # Errors
    ///
    /// An error of an earlier sync.
    pub(crate) fn wrote(&mut self, file: &File, end: u64) -> io::Result<()> {
        self.check()?;
        if end.saturating_sub(self.requested) < STEP {
            return Ok(());
        }
        if self.worker.is_none() {
            // If the system gives no more threads or files, the sync is left to the end.
            self.worker = file.try_clone().and_then(|file| self.start(file)).ok();
        }
        // While the thread is busy, it is told later.
        if let Some(worker) = &self.worker
            && worker.requests.try_send((end, self.cache_policy)).is_ok()
        {
            self.requested = end;
        }
        Ok(())
    }

    /// Waits until the thread has synced everything that it was told to sync.
    ///
    /// Call it before the last sync of the file: the system reports lost bytes only once, to the sync that meets
    /// them.
    ///
    /// # Errors
    ///
    /// An error of a sync.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some(SyncThread { requests, thread }) = self.worker.take() {
            drop(requests);
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        self.check()
    }

    /// The error of a sync, if it was not returned before.
    pub(crate) fn check(&self) -> io::Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    fn start(&self, file: File) -> io::Result<SyncThread> {
        let (requests, receiver) = sync_channel(1);
        let failure = Arc::clone(&self.failure);
        let mut start = self.requested;
        let thread = start_thread::start("fastpack-sync", move || {
            while let Ok((end, cache_policy)) = receiver.recv() {
                if let Err(error) = file.sync_data() {
                    *lock(&failure) = Some(error);
                } else if cache_policy == CachePolicy::Release {
                    release(&file, start, end);
                }
                start = end;
            }
        })?;
        Ok(SyncThread { requests, thread })
    }
}

/// Drops `start..end` of a file from the system's cache.
fn release(file: &File, start: u64, end: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Advice, fadvise};
        // The system may not follow the advice, which is no failure.
        let _ = fadvise(file, start, std::num::NonZeroU64::new(end - start), Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, end);
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_written_stays_the_same_and_the_thread_ends() {
        for cache_policy in [CachePolicy::Keep, CachePolicy::Release] {
            let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
            let mut writeback = Writeback::new(0, cache_policy);
            let block: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
            for number in 1..=100_u64 {
                file.write_all(&block).expect("room for 100 MiB");
                writeback.wrote(file.as_file(), number << 20).expect("the disk keeps it");
            }
            assert!(writeback.requested > 0, "it was told to go on");
            writeback.finish().expect("the disk keeps it");
            assert_eq!(Arc::strong_count(&writeback.failure), 1, "the thread is gone");
            let written = std::fs::read(file.path()).expect("the file is there");
            assert!(written.chunks(1 << 20).all(|chunk| chunk == block));
        }
    }

    #[test]
    fn little_is_left_to_the_end() {
        let file = tempfile::tempfile().expect("a folder for temporary files");
        let mut writeback = Writeback::new(0, CachePolicy::Release);
        writeback.wrote(&file, STEP - 1).expect("nothing is to be done");
        assert!(writeback.worker.is_none());
    }

    #[test]
    fn what_the_disk_says_is_told_once() {
        let file = tempfile::tempfile().expect("a folder for temporary files");
        let mut writeback = Writeback::new(0, CachePolicy::Keep);
        *lock(&writeback.failure) = Some(io::ErrorKind::StorageFull.into());
        let outcome = writeback.wrote(&file, 1).map_err(|error| error.kind());
        assert_eq!(outcome, Err(io::ErrorKind::StorageFull));
        assert!(writeback.wrote(&file, 1).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn what_the_disk_says_last_is_told_at_the_end() {
        // A pipe cannot be synced: the thread fails with the file that it is given.
        let (_reader, writer) = io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut writeback = Writeback::new(0, CachePolicy::Release);
        writeback.wrote(&file, STEP).expect("the thread is told");
        assert!(writeback.finish().is_err());
        assert!(writeback.finish().is_ok());
    }
}
