//! [`Uploads`]: uploads the finished shards of a job while the next ones are written.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::lease_guard::LeaseGuard;
use super::run_names::{RunNames, WorkNames};
use crate::error::{Error, Result};
use crate::sink::manifest::{WrittenShard, expected};
use crate::sink::store::coordination_files::HeldLock;
use crate::storage::{BucketFolder, FileToUpload};
use crate::util::control::Control;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::start_thread;
use crate::util::threads_in_order::ordered;

/// Files that are uploaded at a time. Each has up to 32 MiB of parts under way.
pub(crate) const AT_A_TIME: NonZeroUsize = NonZeroUsize::new(3).expect("above zero");

/// Finished shards that wait, as open files. Those beyond this number are uploaded at the end.
const FILE_THREADS: usize = 64;

/// The uploads of a job whose output will lie in a bucket.
///
/// A failure is no failure of the job: the shard is uploaded again at the end of the job, and a second failure is reported.
#[derive(Debug)]
pub struct Uploads {
    queue: Mutex<Option<SyncSender<WaitingShard>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    state: Arc<UploadState>,
}

/// A finished shard, which was opened in the work folder: it is renamed when the job ends.
#[derive(Debug)]
struct WaitingShard {
    file: fs::File,
    path: PathBuf,
    entry: WrittenShard,
}

#[derive(Debug)]
struct UploadState {
    target: Arc<BucketFolder>,
    lease: Arc<LeaseGuard>,
    generation: Arc<RunNames>,
    /// The uploads of stopped runs, by the names that they will have.
    stopped: HashMap<String, String>,
    uploaded: Mutex<Uploaded>,
    /// Ends the uploads.
    stop: Control,
}

/// The uploaded shards by their names: their hashes, and the names that they have in the bucket until they come to their places.
pub(crate) type Uploaded = HashMap<String, (String, String)>;

impl Uploads {
    /// Starts to upload. `stopped` has the uploads of stopped runs, by the names that they will have.
    pub(crate) fn start(
        target: &Arc<BucketFolder>,
        lease: &Arc<LeaseGuard>,
        generation: &Arc<RunNames>,
        stopped: HashMap<String, String>,
    ) -> Self {
        let state = Arc::new(UploadState {
            target: Arc::clone(target),
            lease: Arc::clone(lease),
            generation: Arc::clone(generation),
            stopped,
            uploaded: Mutex::default(),
            stop: Control::default(),
        });
        let (queue, waiting) = sync_channel(FILE_THREADS);
        let waiting = Arc::new(Mutex::new(waiting));
        // Without a thread from the system, all is uploaded at the end.
        let threads = (0..AT_A_TIME.get()).map_while(|_| {
            let (state, waiting) = (Arc::clone(&state), Arc::clone(&waiting));
            start_thread::start("fastpack-upload", move || state.serve(&waiting)).ok()
        });
        let threads = Mutex::new(threads.collect());
        Self { queue: Mutex::new(Some(queue)), threads, state }
    }

    /// Takes a finished shard that lies at `path`, unless too many wait.
    pub(crate) fn take(&self, path: &Path, entry: &WrittenShard) {
        if let Some(queue) = &*locked(&self.queue)
            && let Ok(file) = regular::open(path, Links::Refused)
        {
            let _ =
                queue.try_send(WaitingShard { file, path: path.to_owned(), entry: entry.clone() });
        }
    }

    /// Waits for the uploads.
    pub(crate) fn end(&self) -> Uploaded {
        drop(locked(&self.queue).take());
        for thread in locked(&self.threads).drain(..) {
            // A panic is that of a thread whose shards are uploaded again.
            let _ = thread.join();
        }
        std::mem::take(&mut locked(&self.state.uploaded))
    }

    /// Ends the uploads of a job that has failed. Without `resumes` no later run can use them, and they are removed.
    pub fn give_up(&self, resumes: bool) {
        self.state.stop.cancel();
        let uploaded = self.end();
        if !resumes {
            let stopped = self.state.stopped.values().cloned();
            let names = uploaded.into_values().map(|(_, name)| name).chain(stopped);
            // The caller is told of the failure of the job. A later run of the folder removes the objects that stay.
            let _ = self.state.target.remove_own(names, &WorkNames);
        }
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        self.state.stop.cancel();
        self.end();
    }
}

impl UploadState {
    /// Uploads the shards that come, until no more come or an upload fails.
    fn serve(&self, waiting: &Mutex<Receiver<WaitingShard>>) {
        loop {
            let next = locked(waiting).recv();
            let Ok(next) = next else { return };
            if self.upload(next).is_err() {
                self.stop.cancel();
            }
        }
    }

    fn upload(&self, WaitingShard { file, path, entry }: WaitingShard) -> Result<()> {
        self.lease.check(&self.stop)?;
        let WrittenShard { name, bytes, blake3, .. } = entry;
        if self.target.copies_no(bytes) {
            return Ok(());
        }
        let hash = || expected(&name, &blake3);
        let place = match self.stopped.get(&name) {
            Some(there) if self.target.holds(there, bytes, hash(), &self.stop)?.is_some() => {
                there.clone()
            }
            _ => {
                let proof = self.generation.prove(&name);
                let file = FileToUpload { file, path: &path, expected: hash() };
                self.target.upload(file, &proof, &self.stop)?;
                proof.name().clone()
            }
        };
        locked(&self.uploaded).insert(name, (blake3, place));
        Ok(())
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something to files, some at a time, as long as the lock is held.
pub(crate) fn with_each<'a, T: Send>(
    hold: &dyn HeldLock,
    wanted: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> Result<()> + Sync + 'a,
    control: &Control,
) -> Result<()> {
    let mut wanted = wanted.into_iter();
    let send = |one: T| {
        hold.check(control)?;
        work(one)
    };
    ordered(AT_A_TIME, || Ok(wanted.next()), || send, Ok)
}

/// Opens a file of the local disk to upload it.
pub(crate) fn opened(path: &Path) -> Result<fs::File> {
    fs::File::open(path).map_err(Error::io(path))
}
