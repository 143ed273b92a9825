//! Whole files in a [`BlockCache`]: shards, which the processes of a machine fetch once and map into memory.
//!
//! A file is called by the hash of its content. The lock beside it names it, and has the stamp of the file once that is whole.
//! The process that fetches the file holds the lock alone. Readers share the lock, and the file is not removed meanwhile.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use super::block_cache::{BlockCache, MARKER};
use super::eviction::DIGITS;
use super::lock_record::{LockRecord, LockState, is_whole, lock_of, name_of};
use crate::error::{Error, Result};
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular::{self, is_at};
use crate::util::disk::removal::{Stamp, prove, remove_file};

/// The interval at which a waiting process checks a lock.
const POLL: Duration = Duration::from_millis(10);

/// A whole file as it is asked of the cache.
#[derive(Clone, Debug)]
pub(crate) struct CachedFile {
    /// The hash of its content.
    pub(crate) blake3: blake3::Hash,
    /// The ending of its name, which says its format.
    pub(crate) ending: String,
    pub(crate) bytes: u64,
}

/// A file of the cache, which stays there as long as this lives.
#[derive(Debug)]
pub struct HeldFile {
    path: PathBuf,
    _lock: FileLock,
}

impl HeldFile {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl BlockCache {
    /// The file with this content, which stays as long as what is returned. If it is not here, `fetch` writes it, in one process of
    /// the machine, while the others wait.
    ///
    /// Returns `None` if files that are held leave no room for it.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for a file that is larger than the cache, [`Error::Output`] if a file of others has its name, and the
    /// errors of `fetch`.
    pub(crate) fn hold(
        &self,
        wanted: &CachedFile,
        fetch: &mut dyn FnMut(&mut File) -> Result<()>,
        control: &Control,
    ) -> Result<Option<HeldFile>> {
        let path = self.place_of(wanted);
        let lock_path = lock_of(&path);
        let about = || Error::io(&lock_path);
        std::fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(about())?;
        loop {
            let file = regular::open_to_write(&lock_path).map_err(about())?;
            let mut lock = FileLock::from(file);
            wait(&lock, File::try_lock_shared, control).map_err(about())??;
            if !is_at(&lock, &lock_path).map_err(about())? {
                continue;
            }
            if is_whole(&mut lock, &path, wanted.bytes).map_err(about())? {
                let _ = lock.set_modified(SystemTime::now());
                return Ok(Some(HeldFile { path, _lock: lock }));
            }
            lock.unlock().map_err(about())?;
            // Who holds the lock now may have fetched the file and read it for hours, so it is not waited for alone.
            if !take(&lock, File::try_lock).map_err(about())? {
                control.tick()?;
                thread::sleep(POLL);
                continue;
            }
            if !is_at(&lock, &lock_path).map_err(about())? {
                continue;
            }
            // Another process may have fetched it since.
            if !is_whole(&mut lock, &path, wanted.bytes).map_err(about())?
                && !self.fill(wanted, &path, &mut lock, fetch, control)?
            {
                return Ok(None);
            }
            // A file that was held alone is held again as by others; it may be removed in between.
        }
    }

    /// Fetches a file whose lock is held. Returns false if there is no room.
    fn fill(
        &self,
        wanted: &CachedFile,
        path: &Path,
        lock: &mut File,
        fetch: &mut dyn FnMut(&mut File) -> Result<()>,
        control: &Control,
    ) -> Result<bool> {
        let about = || Error::io(path);
        let Some(mut file) = self.reserve(wanted, path, lock, control)? else { return Ok(false) };
        let done = fetch(&mut file).and_then(|()| {
            let stamp = Stamp::of(&file.metadata().map_err(about())?);
            let state = LockState::Whole(stamp.to_text());
            LockRecord { name: name_of(path), state }.write(lock).map_err(about())
        });
        if done.is_err()
            && let Some(proof) = prove(&LockRecord::read(lock).map_err(about())?, &path.to_owned())
        {
            // The caller is told of the failure. A file that stays is removed by the next process that fetches it.
            let _ = remove_file(proof);
        }
        done.map(|()| true)
    }

    /// Makes room for a file, and the file, at its full size so that others see the room taken; `None` if there is none.
    fn reserve(
        &self,
        wanted: &CachedFile,
        path: &Path,
        lock: &mut File,
        control: &Control,
    ) -> Result<Option<File>> {
        if wanted.bytes > self.most {
            let reason = format!(
                "is {} bytes, less than a shard of {} bytes; give more, or pack with a smaller `format.shard_size`",
                self.most, wanted.bytes
            );
            return Err(Error::option("storage.block_cache", reason));
        }
        let about = || Error::io(path);
        // One process at a time makes room, so that two do not take the same.
        let room_path = self.dir.join(format!("{MARKER}.room"));
        let room = regular::open_to_write(&room_path).map_err(Error::io(&room_path))?;
        let room = FileLock::from(room);
        wait(&room, File::try_lock, control).map_err(Error::io(&room_path))??;
        let record = LockRecord::read(lock).map_err(about())?;
        if path.symlink_metadata().is_ok() {
            // A process was killed while it fetched the file.
            let removed = prove(&record, &path.to_owned()).map(remove_file).transpose();
            if removed.map_err(about())? != Some(false) {
                let reason = "fastpack did not write this file of its cache, or it has changed since; remove it";
                return Err(Error::output(path, reason));
            }
        }
        if self.shrink_to(self.most - wanted.bytes) > self.most - wanted.bytes {
            return Ok(None);
        }
        let record = LockRecord { name: name_of(path), state: LockState::Fetching };
        record.write(lock).map_err(about())?;
        let file = regular::create(path).map_err(about())?;
        file.set_len(wanted.bytes).map_err(about())?;
        Ok(Some(file))
    }

    fn place_of(&self, wanted: &CachedFile) -> PathBuf {
        let hash = wanted.blake3.to_hex();
        let name = format!("{}.{}", &hash[DIGITS..], wanted.ending);
        self.dir.join(&hash[..DIGITS]).join(name)
    }
}

/// Waits for a lock.
fn wait(
    lock: &File,
    how: impl Fn(&File) -> std::result::Result<(), TryLockError>,
    control: &Control,
) -> io::Result<Result<()>> {
    while !take(lock, &how)? {
        if let Err(cancelled) = control.tick() {
            return Ok(Err(cancelled));
        }
        thread::sleep(POLL);
    }
    Ok(Ok(()))
}

/// Takes a lock unless others hold it. On a file system without locks, two processes may fetch the same file.
fn take(
    lock: &File,
    how: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> io::Result<bool> {
    match how(lock) {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    fn wanted(content: &[u8]) -> CachedFile {
        let blake3 = blake3::hash(content);
        CachedFile { blake3, ending: "arrow".to_owned(), bytes: content.len() as u64 }
    }

    fn hold(cache: &BlockCache, content: &[u8]) -> Result<Option<HeldFile>> {
        let mut fetch = |file: &mut File| file.write_all(content).map_err(Error::io("x"));
        cache.hold(&wanted(content), &mut fetch, &Control::default())
    }

    fn not_fetched(_: &mut File) -> Result<()> {
        panic!("it is here")
    }

    #[test]
    fn a_file_is_fetched_once_and_stays_while_it_is_held() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 2500).expect("a cache");
        let files: Vec<Vec<u8>> = (0..4).map(|number| vec![number; 1000]).collect();
        let first = hold(&cache, &files[0]).expect("room").expect("room");
        assert_eq!(fs::read(first.path()).expect("a file"), files[0]);
        drop(hold(&cache, &files[1]).expect("room").expect("room"));
        let again = cache.hold(&wanted(&files[1]), &mut not_fetched, &Control::default());
        let second = again.expect("it is here").expect("it is here");
        assert!(hold(&cache, &files[2]).expect("no error").is_none(), "both are held");
        drop(first);
        let third = hold(&cache, &files[2]).expect("room").expect("the first makes room");
        assert!(second.path().exists() && third.path().exists());
        let names = fs::read_dir(second.path().parent().expect("a folder")).expect("a folder");
        assert!(names.count() <= 2, "the first and its lock are gone");
        assert!(matches!(hold(&cache, &[9; 3000]), Err(Error::Option { .. })));
    }

    /// Two readers find that the file is missing. The one that fetches it keeps it while the other still waits to fetch it.
    #[test]
    fn a_file_that_another_reader_fetched_and_keeps_is_found() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 5000).expect("a cache");
        let content = vec![1; 1000];
        let path = cache.place_of(&wanted(&content));
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        let mut other = regular::open_to_write(&lock_of(&path)).expect("room");
        other.try_lock_shared().expect("nobody else has it");
        let control = Control::default();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| cache.hold(&wanted(&content), &mut not_fetched, &control));
            // It finds the lock shared and the file missing, and waits.
            thread::sleep(10 * POLL);
            assert!(!waiting.is_finished());
            fs::write(&path, &content).expect("room");
            let stamp = Stamp::at(&path).expect("a file").to_text();
            let record = LockRecord { name: name_of(&path), state: LockState::Whole(stamp) };
            record.write(&mut other).expect("room");
            let since = Instant::now();
            while !waiting.is_finished() && since.elapsed() < Duration::from_secs(20) {
                thread::sleep(POLL);
            }
            control.cancel();
            let held = waiting.join().expect("no panic");
            assert_eq!(held.expect("it is here").expect("it is here").path(), path);
        });
    }

    #[test]
    fn what_was_fetched_in_part_is_fetched_again() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 5000).expect("a cache");
        let content = vec![1; 1000];
        let mut broken = |file: &mut File| {
            file.write_all(&content[..10]).map_err(Error::io("x"))?;
            Err(Error::Cancelled)
        };
        assert!(cache.hold(&wanted(&content), &mut broken, &Control::default()).is_err());
        // As a process leaves it that is killed meanwhile.
        let path = cache.place_of(&wanted(&content));
        fs::write(&path, &content[..10]).expect("room");
        let record = LockRecord { name: name_of(&path), state: LockState::Fetching };
        record.write(&mut File::create(lock_of(&path)).expect("room")).expect("room");
        let held = hold(&cache, &content).expect("room").expect("room");
        assert_eq!(fs::read(held.path()).expect("a file"), content);
    }

    #[test]
    fn files_of_others_are_neither_read_nor_removed() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 1500).expect("a cache");
        let content = vec![1; 1000];
        let path = cache.place_of(&wanted(&content));
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        fs::write(&path, &content).expect("room");
        assert!(matches!(hold(&cache, &content), Err(Error::Output { .. })));
        let other = vec![2; 1000];
        let held = hold(&cache, &other).expect("room").expect("room").path().to_owned();
        fs::write(&held, vec![3; 1000]).expect("room");
        assert!(matches!(hold(&cache, &other), Err(Error::Output { .. })), "it has changed");
        drop(hold(&cache, &[4; 1000]).expect("room").expect("files of others take none"));
        assert_eq!(fs::read(&path).expect("a file"), content);
        assert_eq!(fs::read(&held).expect("a file"), vec![3; 1000]);
    }

    #[test]
    fn of_many_readers_one_fetches() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let content = vec![7; 5000];
        let fetched = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let cache = BlockCache::open(dir.path(), 10_000).expect("a cache");
                    let mut fetch = |file: &mut File| {
                        fetched.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(30));
                        file.write_all(&content).map_err(Error::io("x"))
                    };
                    let held = cache.hold(&wanted(&content), &mut fetch, &Control::default());
                    let held = held.expect("room").expect("room");
                    assert_eq!(fs::read(held.path()).expect("a file"), content);
                });
            }
        });
        assert_eq!(fetched.into_inner(), 1);
    }
}
