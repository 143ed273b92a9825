//! The options of remote storage: credentials, retries and the block cache.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that the caller has found by a name which the core does not resolve.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedFile {
    /// The name for reports and errors.
    pub name: String,
    /// The URL of its bytes. It may be a secret.
    pub url: String,
    /// The headers of its requests. They may be secrets.
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for ResolvedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A file of a [`FileSystem`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// The path on the file system.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// The text that changes with the content of the file, if the file system tells one.
    pub etag: Option<String>,
    /// The time of the last change, in nanoseconds since 1970; 0 where the file system does not tell.
    pub modified: u64,
}

/// A file system of the caller, from which all files of a call are read.
///
/// Its functions are called from several threads, and may wait for the caller. Paths are those behind `scheme://` in the
/// names of inputs.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// The file at a path; `None` for a folder, or for nothing.
    ///
    /// # Errors
    ///
    /// An error of the file system.
    fn file(&self, path: &str) -> io::Result<Option<FileFacts>>;

    /// All files below a folder, at any depth.
    ///
    /// # Errors
    ///
    /// An error of the file system.
    fn files(&self, folder: &str) -> io::Result<Vec<FileFacts>>;

    /// The bytes of a range of a file; `None` if the file is not the one of these facts any more.
    ///
    /// # Errors
    ///
    /// An error of the file system.
    fn read(&self, file: &FileFacts, range: Range<u64>) -> io::Result<Option<Vec<u8>>>;
}

/// The options of remote storage. None of them decides what the files hold.
#[derive(Clone, Default)]
pub struct StorageOptions {
    /// Credentials, regions, endpoints and retries, by the names that object stores have for them.
    pub options: BTreeMap<String, String>,
    /// The folder of the block cache and its largest size in bytes, if there is one.
    pub block_cache: Option<(PathBuf, u64)>,
    /// The files that stand for a name such as `hf://datasets/org/name`.
    pub resolved_files: BTreeMap<String, Vec<ResolvedFile>>,
    /// The file system of all inputs, in place of every other kind of storage.
    pub file_system: Option<Arc<dyn FileSystem>>,
}

impl StorageOptions {
    /// True if the caller finds the files of a name.
    pub(crate) fn resolves(&self, name: &Path) -> bool {
        self.file_system.is_some()
            || name.to_str().is_some_and(|name| self.resolved_files.contains_key(name))
    }
}

impl PartialEq for StorageOptions {
    /// A file system is equal to itself alone.
    fn eq(&self, other: &Self) -> bool {
        let is_same_system = match (&self.file_system, &other.file_system) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        let parts =
            |it: &Self| (it.options.clone(), it.block_cache.clone(), it.resolved_files.clone());
        is_same_system && parts(self) == parts(other)
    }
}

impl Eq for StorageOptions {}

impl fmt::Debug for StorageOptions {
    /// Shows no value: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.options.keys().collect();
        f.debug_struct("StorageOptions")
            .field("options", &names)
            .field("block_cache", &self.block_cache)
            .field("resolved_files", &self.resolved_files)
            .field("file_system", &self.file_system)
            .finish()
    }
}

/// An output folder in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOutput {
    /// The URL of the folder.
    pub url: String,
    /// The options of its store.
    pub storage: StorageOptions,
}
