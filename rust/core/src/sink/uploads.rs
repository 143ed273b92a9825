//! [`Uploads`]: uploads the finished shards of a job while the next ones are written.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::bucket_work::work;
use super::files::MANIFEST;
use super::manifest::{File, Manifest};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ordered::ordered;
use crate::regular::{self, Links};
use crate::storage::{Lease, Target};
use crate::threads;

/// Files that are uploaded at a time. Each has up to 32 MiB of parts under way.
pub(super) const AT_A_TIME: NonZeroUsize = NonZeroUsize::new(3).expect("above zero");

/// The least names that the record lists at a time.
const LISTED: usize = 16;

/// Finished shards that wait, as open files. What finds no place is uploaded at the end.
const WAITING: usize = 64;

/// The uploads of a job whose output will lie in a bucket.
///
/// A failure is no failure of the job: what is not uploaded is uploaded again at its end, which tells why that fails.
#[derive(Debug)]
pub struct Uploads {
    queue: Mutex<Option<SyncSender<Waiting>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    state: Arc<State>,
}

/// A finished shard, which was opened in the work folder: it is renamed when the job ends.
#[derive(Debug)]
struct Waiting {
    file: fs::File,
    path: PathBuf,
    entry: File,
}

#[derive(Debug)]
struct State {
    target: Arc<Target>,
    lease: Arc<Lease>,
    /// The record of the files in the bucket, by which a later run knows whose they are.
    placing: Mutex<Manifest>,
    /// The names in it.
    listed: Mutex<HashSet<String>>,
    /// Whether files of a stopped run may lie there.
    is_first: bool,
    /// The hashes of the uploaded shards, by their names.
    uploaded: Mutex<HashMap<String, String>>,
    /// Ends the uploads.
    stop: Control,
}

impl Uploads {
    /// Starts to upload. `placing` lists the files of a stopped run that may lie in the bucket.
    pub(super) fn start(target: &Arc<Target>, lease: &Arc<Lease>, placing: Manifest) -> Self {
        let is_first = placing.names().next().is_none();
        let state = Arc::new(State {
            target: Arc::clone(target),
            lease: Arc::clone(lease),
            is_first,
            listed: Mutex::new(placing.names().map(str::to_owned).collect()),
            placing: Mutex::new(placing),
            uploaded: Mutex::default(),
            stop: Control::default(),
        });
        let (queue, waiting) = sync_channel(WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        // Where the system gives no thread, all is uploaded at the end.
        let threads = (0..AT_A_TIME.get()).map_while(|_| {
            let (state, waiting) = (Arc::clone(&state), Arc::clone(&waiting));
            threads::start("fastpack-upload", move || state.serve(&waiting)).ok()
        });
        let threads = Mutex::new(threads.collect());
        Self { queue: Mutex::new(Some(queue)), threads, state }
    }

    /// Takes a finished shard that lies at `path`, unless too many wait.
    pub(super) fn take(&self, path: &Path, entry: &File) {
        if let Some(queue) = &*locked(&self.queue)
            && let Ok(file) = regular::open(path, Links::Refused)
        {
            let _ = queue.try_send(Waiting { file, path: path.to_owned(), entry: entry.clone() });
        }
    }

    /// Waits for the uploads. Returns the hashes of the uploaded shards, by their names.
    pub(super) fn end(&self) -> HashMap<String, String> {
        drop(locked(&self.queue).take());
        for thread in locked(&self.threads).drain(..) {
            // A panic is that of a thread whose shards are uploaded again.
            let _ = thread.join();
        }
        std::mem::take(&mut locked(&self.state.uploaded))
    }

    /// Ends the uploads of a job that has failed. Without `resumes` no later run goes on with them, and they are removed.
    pub fn give_up(&self, resumes: bool) {
        self.state.stop.cancel();
        let uploaded = self.end();
        if resumes || uploaded.is_empty() {
            return;
        }
        let names = uploaded.into_keys().chain([work(MANIFEST)]).collect::<Vec<_>>();
        // The failure of the job is what its caller is told. A later run of the folder removes what stays.
        let _ = self.state.target.remove_all(&names);
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        self.state.stop.cancel();
        self.end();
    }
}

impl State {
    /// Uploads what comes, until nothing comes or an upload fails.
    fn serve(&self, waiting: &Mutex<Receiver<Waiting>>) {
        loop {
            let next = locked(waiting).recv();
            let Ok(next) = next else { return };
            if self.upload(next).is_err() {
                self.stop.cancel();
            }
        }
    }

    fn upload(&self, Waiting { file, path, entry }: Waiting) -> Result<()> {
        self.target.check(&self.lease, &self.stop)?;
        self.list(&entry)?;
        let File { name, bytes, blake3, .. } = &entry;
        if self.is_first || !self.target.holds(name, *bytes, blake3)? {
            self.target.upload_file((file, &path), name, blake3, &self.stop)?;
        }
        locked(&self.uploaded).insert(entry.name, entry.blake3);
        Ok(())
    }

    /// Lists the name of a shard in the record of the files in the bucket, before it lies there, with the names of those that may
    /// follow: as many as are listed, so that the record is written a few times.
    fn list(&self, entry: &File) -> Result<()> {
        let mut placing = locked(&self.placing);
        let mut listed = locked(&self.listed);
        if listed.contains(&entry.name) {
            return Ok(());
        }
        let more = listed.len().max(LISTED);
        for name in [entry.name.clone()].into_iter().chain(following(&entry.name).take(more)) {
            if listed.insert(name.clone()) {
                placing.files.push(File { name, rows: 0, bytes: 0, blake3: String::new() });
            }
        }
        self.target.put(&work(MANIFEST), placing.to_text())
    }
}

/// The names of the shards after one, by its number: `train-00008.arrow` after `train-00007.arrow`.
fn following(name: &str) -> impl Iterator<Item = String> {
    let start = name.rfind('-').map_or(name.len(), |dash| dash + 1);
    let (stem, rest) = name.split_at(start);
    let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    let (number, ending) = rest.split_at(digits);
    let number = number.parse().unwrap_or(u64::MAX);
    let numbers = number.saturating_add(1)..u64::MAX;
    numbers.map(move |number| format!("{stem}{number:0digits$}{ending}"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Uploads files from the folder `dir`, some at a time: those that `wanted` gives as name here, name there, size and hash. Where
/// files of a stopped run may lie, what is there already is not uploaded again.
pub(super) fn upload_all<'a>(
    (target, lease): (&Target, &Lease),
    dir: &Path,
    wanted: impl IntoIterator<Item = (&'a str, String, u64, &'a str), IntoIter: Send>,
    is_first: bool,
    control: &Control,
) -> Result<()> {
    let mut wanted = wanted.into_iter();
    let send = |(name, key, bytes, blake3): (&str, String, u64, &str)| {
        target.check(lease, control)?;
        if is_first || !target.holds(&key, bytes, blake3)? {
            let path = dir.join(name);
            let file = fs::File::open(&path).map_err(Error::io(&path))?;
            target.upload_file((file, &path), &key, blake3, control)?;
        }
        Ok(())
    };
    ordered(AT_A_TIME, || Ok(wanted.next()), || send, Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_may_follow_have_the_next_numbers() {
        let after = |name: &str| following(name).take(2).collect::<Vec<_>>();
        assert_eq!(after("train-00007.arrow"), ["train-00008.arrow", "train-00009.arrow"]);
        let compressed = ["a-b-00100.jsonl.zst", "a-b-00101.jsonl.zst"];
        assert_eq!(after("a-b-00099.jsonl.zst"), compressed);
        assert_eq!(after("train-99999.arrow")[0], "train-100000.arrow");
        assert!(after("rows.arrow").is_empty() && after("a-b.arrow").is_empty());
    }
}
