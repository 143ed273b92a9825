//! [`PackedFolder`]: the files of a packed folder in remote storage, read by name or through the cache of fetched bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use bytes::Bytes;

use crate::config::StorageOptions;
use crate::error::{Error, Result};
use crate::storage::cache::files::CachedFile;
use crate::storage::cache::remote_folder::RemoteFolder;
use crate::storage::cache::{BlockCache, usual_size};
use crate::util::control::Control;
use crate::util::disk::file_hash::{PART, PartHashes};
use crate::util::disk::removal::Temporary;
use crate::util::threads_in_order::ordered;

pub use crate::storage::cache::files::HeldFile;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// Files that are fetched at a time: small ones wait for answers most of the time.
const AT_A_TIME: NonZeroUsize = NonZeroUsize::new(4).expect("above zero");

/// A packed folder in remote storage.
#[derive(Debug)]
pub struct PackedFolder<'a> {
    folder: RemoteFolder,
    control: &'a Control,
}

/// A file as the manifest of its folder lists it.
#[derive(Clone, Debug)]
pub struct ListedFile {
    /// The name in the folder.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// The BLAKE3 hash, in hexadecimal.
    pub blake3: String,
    /// The hashes of the parts, in hexadecimal and one behind the other; empty for a file of one part, or where they are not known.
    pub parts: String,
}

impl<'a> PackedFolder<'a> {
    /// Opens the folder at `url`.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for what is no URL of a folder, and for options that no client can be made with.
    pub fn open(url: &str, options: &StorageOptions, control: &'a Control) -> Result<Self> {
        Ok(Self { folder: RemoteFolder::open(url, options, control.flag())?, control })
    }

    /// The bytes of a small file; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn read(&self, name: &str) -> Result<Option<Bytes>> {
        self.folder.read(name)
    }

    /// Files on the local disk that are these files, as long as what is returned lives: from the cache in the folder `dir`, with
    /// at most `most` bytes, or fetched into it. `None` for those for which files that are held leave no room.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file is not the one that the manifest lists, and as [`BlockCache::hold`].
    pub fn hold(
        &self,
        files: &[ListedFile],
        dir: &Path,
        most: u64,
    ) -> Result<Vec<Option<HeldFile>>> {
        let cache = BlockCache::open(dir, most)?;
        let (mut listed, mut held) = (files.iter(), Vec::with_capacity(files.len()));
        let fetch = |file: &ListedFile| self.hold_one(file, &cache);
        let keep = |one| {
            held.push(one);
            Ok::<_, Error>(())
        };
        ordered(AT_A_TIME, || Ok(listed.next()), || fetch, keep)?;
        Ok(held)
    }

    fn hold_one(&self, file: &ListedFile, cache: &BlockCache) -> Result<Option<HeldFile>> {
        let ending = Path::new(&file.name).extension().unwrap_or_default();
        let wanted = CachedFile {
            blake3: self.hash_of(file)?,
            ending: ending.to_string_lossy().into_owned(),
            bytes: file.bytes,
        };
        let mut fetch = |out: &mut File| self.write(file, out);
        cache.hold(&wanted, &mut fetch, self.control)
    }

    /// Writes a file to `path`, where there must be none, unchecked: whoever reads it checks it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn copy(&self, name: &str, bytes: u64, path: &Path) -> Result<()> {
        let (new, file) = Temporary::named(path, ".new").map_err(Error::io(path))?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        self.folder.fetch(name, bytes, None, &mut out, self.control)?;
        out.flush().map_err(Error::io(path))?;
        new.place(path).map_err(Error::io(path))
    }

    /// Writes a file, and checks its parts, or else all of it.
    fn write(&self, file: &ListedFile, out: &mut File) -> Result<()> {
        let whole = self.hash_of(file)?;
        let (name, bytes) = (&*file.name, file.bytes);
        if let Some(hashes) = PartHashes::parse(whole, &file.parts, bytes) {
            return self.folder.fetch(name, bytes, Some(&hashes), out, self.control);
        }
        if bytes > PART && !file.parts.is_empty() {
            return Err(self.refused(
                name,
                "the manifest has hashes of its parts that are not those of the file",
            ));
        }
        let mut hashed = HashingWriter { out, hasher: Box::default() };
        self.folder.fetch(name, bytes, None, &mut hashed, self.control)?;
        if hashed.hasher.finalize() == whole {
            return Ok(());
        }
        let reason = "has another hash than the manifest says: it has changed since it was written; pack again, and see `fastpack verify`";
        Err(self.refused(name, reason))
    }

    fn hash_of(&self, file: &ListedFile) -> Result<blake3::Hash> {
        let parsed = blake3::Hash::from_hex(&file.blake3);
        parsed.map_err(|_| self.refused(&file.name, "the manifest lists no hash of it; pack again"))
    }

    fn refused(&self, name: &str, reason: &'static str) -> Error {
        let refused = std::io::Error::new(std::io::ErrorKind::InvalidData, reason);
        Error::io(self.folder.name_of(name))(refused)
    }
}

/// The bytes that a cache in `dir` has by default: half of those that are free on its disk, or its own.
pub fn usual_cache_size(dir: &Path) -> u64 {
    usual_size(dir)
}

/// Writes bytes, and hashes them.
struct HashingWriter<'a> {
    out: &'a mut File,
    hasher: Box<blake3::Hasher>,
}

impl Write for HashingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
