//! The options of remote storage: credentials, retries and the block cache.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A file that the caller has found by a name which the core does not resolve.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenFile {
    /// The name for reports and errors.
    pub name: String,
    /// The URL of its bytes. It may be a secret.
    pub url: String,
    /// The headers of its requests. They may be secrets.
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for GivenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The options of remote storage. None of them decides what the files hold.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StorageOptions {
    /// Credentials, regions, endpoints and retries, by the names that object stores have for them.
    pub options: BTreeMap<String, String>,
    /// The folder of the block cache and its largest size in bytes, if there is one.
    pub block_cache: Option<(PathBuf, u64)>,
    /// The files that stand for a name such as `hf://datasets/org/name`.
    pub given: BTreeMap<String, Vec<GivenFile>>,
}

impl StorageOptions {
    /// Whether the caller found the files of a name.
    pub(crate) fn gives(&self, name: &Path) -> bool {
        name.to_str().is_some_and(|name| self.given.contains_key(name))
    }
}

impl fmt::Debug for StorageOptions {
    /// Shows no value: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.options.keys().collect();
        f.debug_struct("StorageOptions")
            .field("options", &names)
            .field("block_cache", &self.block_cache)
            .field("given", &self.given)
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
