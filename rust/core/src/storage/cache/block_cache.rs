//! [`BlockCache`]: fetched bytes on the local disk, up to a bound.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;

use super::eviction::{DIGITS, bytes_in, name_of, remove_least_used};
use crate::error::{Error, Result};
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{
    Claim, Disk, Evidence, Proof, Stamp, Temporary, prove, remove_file,
};

/// The folder inside the cache folder.
const FOLDER: &str = "blocks";

/// The file that marks the folder as one of fastpack's.
pub(super) const MARKER: &str = "fastpack-blocks";

/// The content of the marker.
const MARK: &str = "Bytes that fastpack has fetched. Files of others in this folder stay.\n";

/// Bytes of a hash.
const HASH: usize = blake3::OUT_LEN;

/// Bytes behind the fetched bytes of a file: its name, and the hash of all before.
const SEAL: usize = 2 * HASH;

/// [`SEAL`], for a place before the end of a file.
const SEAL_END: i64 = 64;

/// The part of the bound that is left once files are removed, so that not every new file removes one.
const KEPT: u64 = 9;

/// The divisor of [`KEPT`].
const OF: u64 = 10;

/// A file is marked as used only if it was last marked longer ago: a mark is a write.
const MARKED: std::time::Duration = std::time::Duration::from_secs(60);

/// Fetched bytes on the local disk.
#[derive(Debug)]
pub(crate) struct BlockCache {
    pub(super) dir: PathBuf,
    pub(super) most: u64,
    /// The bytes of all files, as far as this process knows.
    held: Mutex<u64>,
}

impl BlockCache {
    /// Opens the cache in the folder `dir`, with at most `most` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] for a folder that has files of others and no marker, and [`Error::Io`].
    pub(crate) fn open(dir: &Path, most: u64) -> Result<Self> {
        let dir = dir.join(FOLDER);
        fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        mark(&dir)?;
        let held = bytes_in(&dir);
        let cache = Self { dir, most, held: Mutex::new(held) };
        cache.shrink(0);
        Ok(cache)
    }

    /// The bytes of a range of an object, if they are here and whole.
    pub(in crate::storage) fn get(&self, object: &str, range: &Range<u64>) -> Option<Bytes> {
        let path = self.path(object, range);
        let mut file = regular::open(&path, Links::Refused).ok()?;
        let length = usize::try_from(range.end - range.start).ok()?;
        let mut bytes = Vec::with_capacity(length + SEAL);
        // One byte more shows a file that is too long.
        (&mut file).take((length + SEAL + 1) as u64).read_to_end(&mut bytes).ok()?;
        if bytes.len() != length + SEAL || bytes[length..] != seal(&path, &bytes[..length])? {
            return None;
        }
        bytes.truncate(length);
        let used = file.metadata().and_then(|it| it.modified()).ok();
        if used.and_then(|used| used.elapsed().ok()).is_none_or(|since| since > MARKED) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes.into())
    }

    /// Keeps the bytes of a range of an object. Where that fails, or where a file of somebody else lies, they are fetched again
    /// another time.
    pub(in crate::storage) fn keep_range(&self, object: &str, range: &Range<u64>, bytes: &Bytes) {
        let size = (bytes.len() + SEAL) as u64;
        if size > self.most {
            return;
        }
        let path = self.path(object, range);
        let write = || -> io::Result<()> {
            fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
            let (new, mut file) = Temporary::named(&path, ".new")?;
            file.write_all(bytes)?;
            file.write_all(&seal(&path, bytes).expect("its name is a hash"))?;
            new.persist(&path, self)
        };
        if write().is_ok() {
            self.shrink(size);
        }
    }

    /// Counts `added` bytes, and removes the files used least recently if there are too many.
    fn shrink(&self, added: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held += added;
        if *held <= self.most {
            return;
        }
        *held = self.shrink_to(self.most / OF * KEPT);
    }

    /// Removes the files used least recently until there are no more bytes than `wanted`. Returns the bytes that there are then.
    pub(super) fn shrink_to(&self, wanted: u64) -> u64 {
        // A file of somebody else takes none of the room that the cache may take.
        let remove = |path: &Path| self.own(path).is_none_or(|proof| remove_file(proof).is_ok());
        remove_least_used(&self.dir, wanted, remove)
    }

    fn own(&self, path: &Path) -> Option<Proof<Disk>> {
        prove(self, &path.to_owned())
    }

    fn path(&self, object: &str, range: &Range<u64>) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(object.as_bytes());
        hasher.update(&range.start.to_le_bytes());
        hasher.update(&range.end.to_le_bytes());
        let name = hasher.finalize().to_hex();
        self.dir.join(&name[..DIGITS]).join(&name[DIGITS..])
    }
}

impl Evidence<Disk> for BlockCache {
    /// A file that carries its own name where the cache writes it, or one of an earlier version, which ends with its hash alone.
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let is_ours = || -> Option<Stamp> {
            let name = name_of(path)?;
            let stamp = Stamp::at(path)?;
            let mut file = regular::open(path, Links::Refused).ok()?;
            let mut seal = [0; SEAL];
            let sealed =
                file.seek(SeekFrom::End(-SEAL_END)).and_then(|_| file.read_exact(&mut seal));
            if sealed.is_ok() && seal[..HASH] == *name.as_bytes() {
                return Some(stamp);
            }
            let mut bytes = Vec::new();
            file.rewind().and_then(|()| file.read_to_end(&mut bytes)).ok()?;
            let (before, hash) = bytes.split_last_chunk::<HASH>()?;
            (!before.is_empty() && blake3::hash(before).as_bytes() == hash).then_some(stamp)
        };
        is_ours().map_or(Claim::None, Claim::Version)
    }
}

/// The seal behind the bytes of the file at `path`; `None` if its name is not one of the cache.
fn seal(path: &Path, bytes: &[u8]) -> Option<[u8; SEAL]> {
    let name = name_of(path)?;
    let hash = *blake3::Hasher::new().update(bytes).update(name.as_bytes()).finalize().as_bytes();
    let mut seal = [0; SEAL];
    seal[..HASH].copy_from_slice(name.as_bytes());
    seal[HASH..].copy_from_slice(&hash);
    Some(seal)
}

/// Puts the marker into a folder where there is none, unless it has files of others.
fn mark(dir: &Path) -> Result<()> {
    let marker = dir.join(MARKER);
    match fs::read(&marker) {
        Ok(found) if found == MARK.as_bytes() => return Ok(()),
        Ok(_) => return Err(not_ours(dir, MARKER)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(marker)(error)),
    }
    // Earlier versions have put no marker there.
    let named = fs::read_dir(dir).map_err(Error::io(dir))?.flatten().find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
        let is_hex = name.len() == DIGITS && name.bytes().all(|it| it.is_ascii_hexdigit());
        (!(is_folder && is_hex || name.starts_with(MARKER))).then_some(name)
    });
    if let Some(name) = named {
        return Err(not_ours(dir, &name));
    }
    let (new, mut file) = Temporary::named(&marker, ".new").map_err(Error::io(&marker))?;
    file.write_all(MARK.as_bytes()).map_err(Error::io(&marker))?;
    match new.place(&marker) {
        // Another process has just done so.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        placed => placed.map_err(Error::io(marker)),
    }
}

/// The bytes that a cache in `dir` has by default: half of those that are free on its disk, or its own.
pub(crate) fn usual_size(dir: &Path) -> u64 {
    let held = bytes_in(&dir.join(FOLDER));
    let there = dir.ancestors().find(|folder| folder.exists()).unwrap_or(dir);
    held.saturating_add(free_bytes(there)) / 2
}

/// The bytes that are free on the disk of a folder.
#[cfg(unix)]
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder)
        .map_or(UNKNOWN_DISK, |disk| disk.f_frsize.saturating_mul(disk.f_bavail))
}

/// The bytes that are taken to be free: there is no call here that tells.
#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> u64 {
    UNKNOWN_DISK
}

/// The bytes that are taken to be free on a disk that does not tell.
const UNKNOWN_DISK: u64 = 50 << 30;

fn not_ours(dir: &Path, name: &str) -> Error {
    let reason = format!(
        "holds `{name}`, which fastpack did not write, so that no blocks are kept there; move it away, or name another `cache_dir`"
    );
    Error::output(dir, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::cache::eviction::files;

    #[test]
    fn bytes_come_back_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 1 << 20).expect("a folder");
        let bytes = Bytes::from_static(b"some bytes");
        cache.keep_range("s3://b/k\n1", &(0..10), &bytes);
        assert_eq!(cache.get("s3://b/k\n1", &(0..10)), Some(bytes.clone()));
        assert_eq!(cache.get("s3://b/k\n2", &(0..10)), None);
        assert_eq!(cache.get("s3://b/k\n1", &(0..9)), None);
        let path = cache.path("s3://b/k\n1", &(0..10));
        let mut broken = fs::read(&path).expect("the file");
        broken[3] ^= 1;
        fs::write(&path, broken).expect("room");
        assert_eq!(cache.get("s3://b/k\n1", &(0..10)), None);
        cache.keep_range("s3://b/k\n1", &(0..10), &bytes);
        assert_eq!(cache.get("s3://b/k\n1", &(0..10)), Some(bytes));
    }

    #[test]
    fn files_of_others_stay_whatever_their_names() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 2000).expect("a folder");
        let bytes = Bytes::from(vec![1; 1000]);
        let foreign = cache.path("object", &(0..1000));
        fs::create_dir_all(foreign.parent().expect("a folder")).expect("room");
        fs::write(&foreign, vec![7; 1064]).expect("room");
        cache.keep_range("object", &(0..1000), &bytes);
        assert_eq!(cache.get("object", &(0..1000)), None);
        for number in 1..9 {
            cache.keep_range("object", &(number * 1000..(number + 1) * 1000), &bytes);
        }
        assert_eq!(fs::read(&foreign).expect("the file"), vec![7; 1064]);
        assert!(files(&cache.dir).len() <= 2);
    }

    #[test]
    fn a_folder_of_others_is_refused_and_one_of_an_earlier_version_is_marked() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let blocks = dir.path().join(FOLDER);
        let old = blocks.join("ab").join("c".repeat(62));
        fs::create_dir_all(blocks.join("ab")).expect("room");
        fs::write(&old, [b"bytes".as_slice(), blake3::hash(b"bytes").as_bytes()].concat())
            .expect("room");
        BlockCache::open(dir.path(), 1).expect("a cache");
        assert!(!old.exists() && blocks.join(MARKER).exists());
        let other = tempfile::tempdir().expect("a folder for temporary files");
        fs::create_dir(other.path().join(FOLDER)).expect("room");
        fs::write(other.path().join(FOLDER).join("notes.txt"), "mine").expect("room");
        assert!(BlockCache::open(other.path(), 1).is_err());
    }

    #[test]
    fn a_cache_stays_below_its_bound() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let cache = BlockCache::open(dir.path(), 10_000).expect("a folder");
        for number in 0..100_u64 {
            cache.keep_range(
                "object",
                &(number * 1000..(number + 1) * 1000),
                &Bytes::from(vec![1; 1000]),
            );
            let held = bytes_in(&cache.dir);
            assert!(held <= 10_000, "{held}");
        }
        assert!(cache.get("object", &(99_000..100_000)).is_some());
        cache.keep_range("object", &(0..20_000), &Bytes::from(vec![1; 20_000]));
        assert!(cache.get("object", &(0..20_000)).is_none(), "it is larger than the cache");
        let smaller = BlockCache::open(dir.path(), 2000).expect("a folder");
        assert!(files(&smaller.dir).len() <= 1);
    }
}
