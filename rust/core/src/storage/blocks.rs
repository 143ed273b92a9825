//! [`BlockCache`]: fetched bytes on the local disk, up to a bound.
//!
//! Each file in it holds the bytes of one request and their hash. Its name is a hash of the object's name, etag and
//! range, so another content has another name. The files used least recently are removed first.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::regular;

/// The folder inside the cache folder.
const FOLDER: &str = "blocks";

/// Bytes of the hash behind the bytes of a file.
const HASH: usize = blake3::OUT_LEN;

/// The part of the bound that is left once files are removed, so that not every new file removes one.
const KEPT: u64 = 9;

/// The divisor of [`KEPT`].
const OF: u64 = 10;

/// A file is marked as used only if it was last marked longer ago: a mark is a write.
const MARKED: std::time::Duration = std::time::Duration::from_secs(60);

/// Fetched bytes on the local disk.
#[derive(Debug)]
pub(super) struct BlockCache {
    dir: PathBuf,
    most: u64,
    /// The bytes of all files, as far as this process knows.
    held: Mutex<u64>,
}

impl BlockCache {
    /// Opens the cache in the folder `dir`, with at most `most` bytes.
    pub(super) fn open(dir: &Path, most: u64) -> Result<Self> {
        let dir = dir.join(FOLDER);
        fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        let held = files(&dir).iter().map(|file| file.bytes).sum();
        let cache = Self { dir, most, held: Mutex::new(held) };
        cache.shrink(0);
        Ok(cache)
    }

    /// The bytes of a range of an object, if they are here and whole.
    pub(super) fn get(&self, object: &str, range: &Range<u64>) -> Option<Bytes> {
        let path = self.path(object, range);
        let mut file = fs::File::open(&path).ok()?;
        let length = usize::try_from(range.end - range.start).ok()?;
        let mut bytes = Vec::with_capacity(length + HASH);
        // One byte more shows a file that is too long.
        (&mut file).take((length + HASH + 1) as u64).read_to_end(&mut bytes).ok()?;
        if bytes.len() != length + HASH
            || *blake3::hash(&bytes[..length]).as_bytes() != bytes[length..]
        {
            let _ = fs::remove_file(&path);
            return None;
        }
        bytes.truncate(length);
        let used = file.metadata().and_then(|it| it.modified()).ok();
        if used.and_then(|used| used.elapsed().ok()).is_none_or(|since| since > MARKED) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes.into())
    }

    /// Keeps the bytes of a range of an object. Where that fails they are fetched again another time.
    pub(super) fn put(&self, object: &str, range: &Range<u64>, bytes: &Bytes) {
        let size = (bytes.len() + HASH) as u64;
        if size > self.most {
            return;
        }
        let path = self.path(object, range);
        let new = regular::own(&path, ".new");
        let write = || -> io::Result<()> {
            fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
            let mut file = fs::File::create(&new)?;
            file.write_all(bytes)?;
            file.write_all(blake3::hash(bytes).as_bytes())?;
            fs::rename(&new, &path)
        };
        if write().is_err() {
            let _ = fs::remove_file(&new);
            return;
        }
        self.shrink(size);
    }

    /// Counts `added` bytes, and removes the files used least recently if there are too many.
    fn shrink(&self, added: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held += added;
        if *held <= self.most {
            return;
        }
        let mut all = files(&self.dir);
        all.sort_by_key(|file| file.used);
        *held = all.iter().map(|file| file.bytes).sum();
        let wanted = self.most / OF * KEPT;
        for file in all {
            if *held <= wanted {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                *held -= file.bytes;
            }
        }
    }

    fn path(&self, object: &str, range: &Range<u64>) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(object.as_bytes());
        hasher.update(&range.start.to_le_bytes());
        hasher.update(&range.end.to_le_bytes());
        let name = hasher.finalize().to_hex();
        self.dir.join(&name[..2]).join(&name[2..])
    }
}

/// A file of the cache.
struct BlockFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// The files in the folders of a cache.
fn files(dir: &Path) -> Vec<BlockFile> {
    let folders = fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    let kept = entries.flatten().filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(BlockFile { path: entry.path(), bytes: metadata.len(), used })
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 1 << 20).expect("a folder");
        let bytes = Bytes::from_static(b"some bytes");
        cache.put("s3://b/k\n1", &(0..10), &bytes);
        assert_eq!(cache.get("s3://b/k\n1", &(0..10)), Some(bytes));
        assert_eq!(cache.get("s3://b/k\n2", &(0..10)), None);
        assert_eq!(cache.get("s3://b/k\n1", &(0..9)), None);
        let path = cache.path("s3://b/k\n1", &(0..10));
        let mut broken = fs::read(&path).expect("the file");
        broken[3] ^= 1;
        fs::write(&path, broken).expect("room");
        assert_eq!(cache.get("s3://b/k\n1", &(0..10)), None);
        assert!(!path.exists());
    }

    #[test]
    fn a_cache_stays_below_its_bound() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 10_000).expect("a folder");
        for number in 0..100_u64 {
            cache.put("object", &(number * 1000..(number + 1) * 1000), &Bytes::from(vec![1; 1000]));
            let held: u64 = files(&cache.dir).iter().map(|file| file.bytes).sum();
            assert!(held <= 10_000, "{held}");
        }
        assert!(cache.get("object", &(99_000..100_000)).is_some());
        cache.put("object", &(0..20_000), &Bytes::from(vec![1; 20_000]));
        assert!(cache.get("object", &(0..20_000)).is_none(), "it is larger than the cache");
        let smaller = BlockCache::open(dir.path(), 2000).expect("a folder");
        assert!(files(&smaller.dir).len() <= 1);
    }
}
