//! [`BucketFolder`]: a folder of a bucket that a job writes to.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, UpdateVersion};

use super::listing;
use crate::config::StorageOptions;
use crate::error::{Error, Result};
use crate::storage::address::{Address, StoreKind};
use crate::storage::buckets;
use crate::storage::http::retrying_client::RetryingClient;
use crate::storage::request_threads::{Pending, RequestThreads};
use crate::storage::session::Session;
use crate::util::control::Control;

/// Bytes of a part of a download.
const PART: u64 = 8 << 20;

/// Parts that are fetched at a time.
const AT_A_TIME: usize = 4;

/// The key of the lock of the whole folder.
pub(crate) const LOCK: &str = ".fastpack/lock";

/// Bytes of the largest object that S3 copies at once.
const MOST_COPIED: u64 = 5 << 30;

/// Bytes of the largest object that a store of this kind copies at once.
fn most_copied(kind: StoreKind) -> u64 {
    if kind == StoreKind::S3 { MOST_COPIED } else { u64::MAX }
}

/// A folder of a bucket.
#[derive(Debug)]
pub(crate) struct BucketFolder {
    pub(crate) address: Address,
    pub(crate) prefix: String,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) tasks: Arc<RequestThreads>,
    pub(crate) client: Arc<RetryingClient>,
    /// The ways to copy an object to a name that must be free. The store may know one of them.
    pub(crate) copiers: Vec<Arc<dyn ObjectStore>>,
    /// The one of them that was found to work.
    pub(crate) copier: OnceLock<Arc<dyn ObjectStore>>,
    /// Bytes of the largest object that the store copies at once.
    pub(crate) most_copied: u64,
    /// The bucket, if it is one of the protocol of S3.
    pub(crate) s3: Option<Arc<AmazonS3>>,
}

/// An object of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedObject {
    /// The name in the folder.
    pub(crate) name: String,
    /// The size in bytes.
    pub(crate) bytes: u64,
    /// The time at which it was written, in nanoseconds since 1970, by the clock of the store.
    pub(crate) modified: u64,
    /// Its etag.
    pub(crate) etag: Option<Arc<str>>,
}

impl ListedObject {
    /// The etag as [`Version`](super::objects::Version) tells it; `None` where the store gives none.
    pub(crate) fn etag(&self) -> Option<&str> {
        self.etag.as_deref().map(plain_etag).filter(|etag| !etag.is_empty())
    }
}

/// An etag without its quotes, which lists leave out.
pub(crate) fn plain_etag(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

impl BucketFolder {
    /// Opens the folder at `url`, which must be one of a bucket.
    pub(crate) fn open(
        url: &str,
        options: &StorageOptions,
        cancelled: Arc<AtomicBool>,
    ) -> Result<Self> {
        let address = Address::parse(url, "output")?;
        if !Session::is_bucket(&address) {
            let reason = format!(
                "`{}` is on a web server, which takes no output; write to a folder, or to s3://, gs:// or az://",
                address.name
            );
            return Err(Error::option("output", reason));
        }
        let session = Session::open(options, cancelled)?;
        let store = session.bucket(&address)?;
        let copiers = session.copiers(&address)?;
        let prefix = address.key.trim_matches('/').to_owned();
        let (tasks, client) = session.parts();
        let (copier, s3) = (OnceLock::new(), session.s3(&address)?);
        let most_copied = most_copied(address.kind);
        Ok(Self { address, prefix, store, tasks, client, copiers, copier, most_copied, s3 })
    }

    /// A folder of a store in memory.
    #[cfg(test)]
    pub(crate) fn over(store: Arc<dyn ObjectStore>) -> Self {
        let address = Address::parse("s3://bucket/packed", "output").expect("an address");
        let tasks = Arc::new(RequestThreads::start(Arc::default()).expect("threads"));
        let client = Arc::new(RetryingClient::new(&[].into()).expect("a client"));
        let copiers = vec![Arc::clone(&store)];
        let (prefix, copier) = ("packed".to_owned(), OnceLock::new());
        let most_copied = u64::MAX;
        Self { address, prefix, store, tasks, client, copiers, copier, most_copied, s3: None }
    }

    /// The URL of an object of the folder.
    pub(crate) fn name_of(&self, name: &str) -> PathBuf {
        PathBuf::from(self.address.name_of(&self.key(name)))
    }

    /// The URL of the folder.
    pub(crate) fn name(&self) -> PathBuf {
        PathBuf::from(self.address.name_of(&self.prefix))
    }

    pub(crate) fn key(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }

    pub(crate) fn path(&self, name: &str) -> Result<object_store::path::Path> {
        buckets::path_of(&self.key(name)).map_err(Error::io(self.name_of(name)))
    }

    /// All objects of the folder but the lock, sorted by name.
    pub(crate) fn entries(&self) -> Result<Vec<ListedObject>> {
        let entries = self.entries_in("")?.into_iter();
        Ok(entries.filter(|entry| entry.name != LOCK).collect())
    }

    /// All objects of a folder in this one, sorted by their names in this one.
    pub(crate) fn entries_in(&self, folder: &str) -> Result<Vec<ListedObject>> {
        let key = self.key(folder);
        let key = key.trim_end_matches('/');
        let prefix = if key.is_empty() {
            None
        } else {
            Some(buckets::path_of(key).map_err(Error::io(self.name()))?)
        };
        let (store, client) = (Arc::clone(&self.store), Arc::clone(&self.client));
        let listed = self.tasks.run(listing::list(store, prefix, client));
        let listed = listed.map_err(Error::io(self.name()))?;
        let inside = |key: &str| {
            let name = key.strip_prefix(&self.prefix).unwrap_or(key);
            name.strip_prefix('/').unwrap_or(name).to_owned()
        };
        let entries = listed.into_iter().map(|(key, stat)| ListedObject {
            name: inside(&key),
            bytes: stat.size,
            modified: stat.modified,
            etag: stat.etag,
        });
        Ok(entries.collect())
    }

    /// The bytes of an object; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.read_update(name)?.map(|(bytes, _)| bytes))
    }

    /// The bytes of an object and their version; `None` if there is none.
    pub(crate) fn read_update(&self, name: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
        let (store, path) = (Arc::clone(&self.store), self.path(name)?);
        let client = Arc::clone(&self.client);
        let read = self.tasks.run(async move {
            let read = || async {
                let got = match store.get_opts(&path, GetOptions::default()).await {
                    Ok(got) => got,
                    Err(object_store::Error::NotFound { .. }) => return Ok(None),
                    Err(error) => return Err(buckets::to_io_error(&error, &client)),
                };
                let (e_tag, version) = (got.meta.e_tag.clone(), got.meta.version.clone());
                let bytes =
                    got.bytes().await.map_err(|error| buckets::to_io_error(&error, &client))?;
                Ok(Some((bytes, UpdateVersion { e_tag, version })))
            };
            client.repeat(read).await
        });
        read.map_err(Error::io(self.name_of(name)))
    }

    /// Writes the bytes of an object to a file. They are fetched some parts at a time.
    pub(crate) fn download(
        &self,
        name: &str,
        to: &mut impl Write,
        control: &Control,
    ) -> Result<()> {
        let (store, client) = (Arc::clone(&self.store), Arc::clone(&self.client));
        let path = self.path(name)?;
        let head_path = path.clone();
        let found = self.tasks.run(async move {
            store.head(&head_path).await.map_err(|error| buckets::to_io_error(&error, &client))
        });
        let size = found.map_err(Error::io(self.name_of(name)))?.size;
        let mut under_way: VecDeque<Pending<io::Result<Bytes>>> = VecDeque::new();
        let mut write = |pending: Pending<io::Result<Bytes>>| -> io::Result<()> {
            to.write_all(&pending.wait()??)
        };
        let mut start = 0;
        while start < size || !under_way.is_empty() {
            control.tick()?;
            if (start >= size || under_way.len() == AT_A_TIME)
                && let Some(first) = under_way.pop_front()
            {
                write(first).map_err(Error::io(self.name_of(name)))?;
                continue;
            }
            let range = start..size.min(start + PART);
            start = range.end;
            let (store, client) = (Arc::clone(&self.store), Arc::clone(&self.client));
            let path = path.clone();
            under_way.push_back(self.tasks.begin(async move {
                let read = || async {
                    let got = store.get_range(&path, range.clone()).await;
                    got.map_err(|error| buckets::to_io_error(&error, &client))
                };
                client.repeat(read).await
            }));
        }
        Ok(())
    }
}
