//! [`Behind`]: brings a file to the disk while it is still being written.
//!
//! Else the whole of it waits in memory for the end, and the writer with it then.

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::threads;

/// Bytes after which the disk is told to keep what was written: what a loss of power can cost.
const STEP: u64 = 32 << 20;

/// A thread that stays behind the writer of a file; it is started when there is enough to do.
///
/// It ends with this. Unless the file is to be finished, nobody waits for it: a call that is cancelled would wait for the
/// disk.
#[derive(Debug)]
pub(crate) struct Behind {
    /// What becomes of memory from now on.
    pub(crate) afterwards: Afterwards,
    /// How far it was told to go.
    told: u64,
    worker: Option<Worker>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

/// The thread, and where it is told how far to go.
#[derive(Debug)]
struct Worker {
    told: SyncSender<(u64, Afterwards)>,
    thread: JoinHandle<()>,
}

/// What becomes of the memory that the system keeps written bytes in, once the disk has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// It stays: they will be read soon.
    Keep,
    /// It is given back, and taken for what is written next: the files may be larger than memory, and should not
    /// displace what others keep there.
    Release,
}

impl Behind {
    /// For a file of which the first `end` bytes are on the disk.
    pub(crate) fn new(end: u64, afterwards: Afterwards) -> Self {
        Self { afterwards, told: end, worker: None, failure: Arc::default() }
    }

    /// Says that `file` was written up to `end`.
    ///
    /// # Errors
    ///
    /// What the disk said of the bytes before.
    pub(crate) fn wrote(&mut self, file: &File, end: u64) -> io::Result<()> {
        self.check()?;
        if end.saturating_sub(self.told) < STEP {
            return Ok(());
        }
        if self.worker.is_none() {
            // Where the system gives no more threads or files, all is left to the end.
            self.worker = file.try_clone().and_then(|file| self.start(file)).ok();
        }
        // While it is busy, it is told later, of more.
        if let Some(worker) = &self.worker
            && worker.told.try_send((end, self.afterwards)).is_ok()
        {
            self.told = end;
        }
        Ok(())
    }

    /// Waits until the thread has done what it was told.
    ///
    /// To be called before the file is synced at last: the system tells of bytes that were lost once, and not to who
    /// asks after that.
    ///
    /// # Errors
    ///
    /// What the disk said of the bytes that it was told to keep.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some(Worker { told, thread }) = self.worker.take() {
            drop(told);
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        self.check()
    }

    /// What the disk said of the bytes that it was told to keep, if that was not told before.
    pub(crate) fn check(&self) -> io::Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    fn start(&self, file: File) -> io::Result<Worker> {
        let (told, receiver) = sync_channel(1);
        let failure = Arc::clone(&self.failure);
        let mut start = self.told;
        let thread = threads::start("fastpack-sync", move || {
            while let Ok((end, afterwards)) = receiver.recv() {
                if let Err(error) = file.sync_data() {
                    *lock(&failure) = Some(error);
                } else if afterwards == Afterwards::Release {
                    release(&file, start, end);
                }
                start = end;
            }
        })?;
        Ok(Worker { told, thread })
    }
}

/// Gives the memory back that holds `start..end` of a file.
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
        for afterwards in [Afterwards::Keep, Afterwards::Release] {
            let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
            let mut behind = Behind::new(0, afterwards);
            let block: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
            for number in 1..=100_u64 {
                file.write_all(&block).expect("room for 100 MiB");
                behind.wrote(file.as_file(), number << 20).expect("the disk keeps it");
            }
            assert!(behind.told > 0, "it was told to go on");
            behind.finish().expect("the disk keeps it");
            assert_eq!(Arc::strong_count(&behind.failure), 1, "the thread is gone");
            let written = std::fs::read(file.path()).expect("the file is there");
            assert!(written.chunks(1 << 20).all(|chunk| chunk == block));
        }
    }

    #[test]
    fn little_is_left_to_the_end() {
        let file = tempfile::tempfile().expect("a folder for temporary files");
        let mut behind = Behind::new(0, Afterwards::Release);
        behind.wrote(&file, STEP - 1).expect("nothing is to be done");
        assert!(behind.worker.is_none());
    }

    #[test]
    fn what_the_disk_says_is_told_once() {
        let file = tempfile::tempfile().expect("a folder for temporary files");
        let mut behind = Behind::new(0, Afterwards::Keep);
        *lock(&behind.failure) = Some(io::ErrorKind::StorageFull.into());
        let told = behind.wrote(&file, 1).map_err(|error| error.kind());
        assert_eq!(told, Err(io::ErrorKind::StorageFull));
        assert!(behind.wrote(&file, 1).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn what_the_disk_says_last_is_told_at_the_end() {
        // A pipe cannot be synced: what the thread is told of a file there fails.
        let (_reader, writer) = io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut behind = Behind::new(0, Afterwards::Release);
        behind.wrote(&file, STEP).expect("the thread is told");
        assert!(behind.finish().is_err());
        assert!(behind.finish().is_ok());
    }
}
