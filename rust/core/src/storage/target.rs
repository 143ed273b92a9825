//! [`Target`]: a folder of a bucket that a job writes to.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::{
    Attribute, Attributes, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, UpdateVersion,
};

use super::address::Address;
use super::bucket;
use super::buckets;
use super::requests::Requests;
use super::session::Session;
use super::tasks::{Pending, Tasks};
use crate::config::StorageOptions;
use crate::control::Control;
use crate::error::{Error, Result};

/// Bytes of a part of an upload, unless the file would have too many.
const PART: u64 = 8 << 20;

/// The most parts of an upload that all stores take.
const MOST_PARTS: u64 = 9000;

/// Parts that are sent at a time.
const AT_A_TIME: usize = 4;

/// The attribute of an object that holds the BLAKE3 hash of its bytes.
const HASH: &str = "blake3";

/// The time that ending an upload that has failed may take.
const ABORT: Duration = Duration::from_secs(5);

/// The key of the lock of the whole folder.
pub(crate) const LOCK: &str = ".fastpack/lock";

/// A folder of a bucket.
#[derive(Debug)]
pub(crate) struct Target {
    pub(super) address: Address,
    pub(super) prefix: String,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) tasks: Arc<Tasks>,
    pub(super) requests: Arc<Requests>,
}

/// An object of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name in the folder.
    pub(crate) name: String,
    /// The size in bytes.
    pub(crate) bytes: u64,
    /// The time at which it was written, in nanoseconds since 1970, by the clock of the store.
    pub(crate) modified: u64,
}

impl Target {
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
        let prefix = address.key.trim_matches('/').to_owned();
        let (tasks, requests) = session.parts();
        Ok(Self { address, prefix, store, tasks, requests })
    }

    /// A folder of a store in memory.
    #[cfg(test)]
    pub(super) fn over(store: Arc<dyn ObjectStore>) -> Self {
        let address = Address::parse("s3://bucket/packed", "output").expect("an address");
        let tasks = Arc::new(Tasks::start(Arc::default()).expect("threads"));
        let requests = Arc::new(Requests::new(&[].into()).expect("a client"));
        Self { address, prefix: "packed".to_owned(), store, tasks, requests }
    }

    /// The URL of an object of the folder.
    pub(crate) fn name_of(&self, name: &str) -> PathBuf {
        PathBuf::from(self.address.name_of(&self.key(name)))
    }

    /// The URL of the folder.
    pub(crate) fn name(&self) -> PathBuf {
        PathBuf::from(self.address.name_of(&self.prefix))
    }

    fn key(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }

    pub(super) fn path(&self, name: &str) -> Result<object_store::path::Path> {
        buckets::path_of(&self.key(name)).map_err(Error::io(self.name_of(name)))
    }

    /// All objects of the folder but the lock, sorted by name.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        let entries = self.entries_in("")?.into_iter();
        Ok(entries.filter(|entry| entry.name != LOCK).collect())
    }

    /// All objects of a folder in this one, sorted by their names in this one.
    pub(crate) fn entries_in(&self, folder: &str) -> Result<Vec<Entry>> {
        let key = self.key(folder);
        let key = key.trim_end_matches('/');
        let prefix = if key.is_empty() {
            None
        } else {
            Some(buckets::path_of(key).map_err(Error::io(self.name()))?)
        };
        let (store, requests) = (Arc::clone(&self.store), Arc::clone(&self.requests));
        let listed = self.tasks.run(bucket::list(store, prefix, requests));
        let listed = listed.map_err(Error::io(self.name()))?;
        let inside = |key: &str| {
            let name = key.strip_prefix(&self.prefix).unwrap_or(key);
            name.strip_prefix('/').unwrap_or(name).to_owned()
        };
        let entries = listed.into_iter().map(|(key, stat)| Entry {
            name: inside(&key),
            bytes: stat.size,
            modified: stat.modified,
        });
        Ok(entries.collect())
    }

    /// The bytes of an object; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.read_version(name)?.map(|(bytes, _)| bytes))
    }

    /// The bytes of an object and their version; `None` if there is none.
    pub(super) fn read_version(&self, name: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
        let (store, path) = (Arc::clone(&self.store), self.path(name)?);
        let requests = Arc::clone(&self.requests);
        let read = self.tasks.run(async move {
            let read = || async {
                let got = match store.get_opts(&path, GetOptions::default()).await {
                    Ok(got) => got,
                    Err(object_store::Error::NotFound { .. }) => return Ok(None),
                    Err(error) => return Err(buckets::said(&error, &requests)),
                };
                let (e_tag, version) = (got.meta.e_tag.clone(), got.meta.version.clone());
                let bytes = got.bytes().await.map_err(|error| buckets::said(&error, &requests))?;
                Ok(Some((bytes, UpdateVersion { e_tag, version })))
            };
            requests.repeat(read).await
        });
        read.map_err(Error::io(self.name_of(name)))
    }

    /// Whether an object has this size and was uploaded with this hash.
    pub(crate) fn holds(&self, name: &str, bytes: u64, blake3: &str) -> Result<bool> {
        let (store, path) = (Arc::clone(&self.store), self.path(name)?);
        let (requests, wanted) = (Arc::clone(&self.requests), blake3.to_owned());
        let held = self.tasks.run(async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            match store.get_opts(&path, options).await {
                Ok(got) => {
                    let hash = got.attributes.get(&Attribute::Metadata(HASH.into()));
                    Ok(got.meta.size == bytes && hash.is_some_and(|hash| **hash == *wanted))
                }
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(buckets::said(&error, &requests)),
            }
        });
        held.map_err(Error::io(self.name_of(name)))
    }

    /// Removes an object, if there is one.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(name)?);
        let requests = Arc::clone(&self.requests);
        let removed = self.tasks.run(async move {
            let remove = || async {
                match store.delete(&path).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                    Err(error) => Err(buckets::said(&error, &requests)),
                }
            };
            requests.repeat(remove).await
        });
        removed.map_err(Error::io(self.name_of(name)))
    }

    /// Removes objects, as many in a request as the store allows.
    pub(crate) fn remove_all(&self, names: &[String]) -> Result<()> {
        let paths: Vec<_> = names.iter().map(|name| self.path(name)).collect::<Result<_>>()?;
        let (store, requests) = (Arc::clone(&self.store), Arc::clone(&self.requests));
        let removed = self.tasks.run(async move {
            let remove = || async {
                let paths = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
                let mut removed = store.delete_stream(paths);
                while let Some(removed) = removed.next().await {
                    match removed {
                        Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => return Err(buckets::said(&error, &requests)),
                    }
                }
                Ok(())
            };
            requests.repeat(remove).await
        });
        removed.map_err(Error::io(self.name()))
    }

    /// Has the store copy an object.
    pub(crate) fn copy(&self, from: &str, to: &str) -> Result<()> {
        let (store, requests) = (Arc::clone(&self.store), Arc::clone(&self.requests));
        let (source, place) = (self.path(from)?, self.path(to)?);
        let copied = self.tasks.run(async move {
            let copy = || async {
                let copied = store.copy(&source, &place).await;
                copied.map_err(|error| buckets::said(&error, &requests))
            };
            requests.repeat(copy).await
        });
        copied.map_err(Error::io(self.name_of(from)))
    }

    /// Writes a small object.
    pub(crate) fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        self.put_whole(name, bytes.into(), Attributes::new())
    }

    fn put_whole(&self, name: &str, bytes: Bytes, attributes: Attributes) -> Result<()> {
        let (store, requests) = (Arc::clone(&self.store), Arc::clone(&self.requests));
        let path = self.path(name)?;
        let put = self.tasks.run(async move {
            let put = || async {
                let options =
                    PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
                let put = store.put_opts(&path, PutPayload::from(bytes.clone()), options).await;
                put.map(drop).map_err(|error| buckets::said(&error, &requests))
            };
            requests.repeat(put).await
        });
        put.map_err(Error::io(self.name_of(name)))
    }

    /// Writes the bytes of an object to a file. They are fetched some parts at a time.
    pub(crate) fn download(
        &self,
        name: &str,
        to: &mut impl Write,
        control: &Control,
    ) -> Result<()> {
        let (store, requests) = (Arc::clone(&self.store), Arc::clone(&self.requests));
        let path = self.path(name)?;
        let asked = path.clone();
        let found = self.tasks.run(async move {
            store.head(&asked).await.map_err(|error| buckets::said(&error, &requests))
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
            let (store, requests) = (Arc::clone(&self.store), Arc::clone(&self.requests));
            let path = path.clone();
            under_way.push_back(self.tasks.begin(async move {
                let read = || async {
                    let got = store.get_range(&path, range.clone()).await;
                    got.map_err(|error| buckets::said(&error, &requests))
                };
                requests.repeat(read).await
            }));
        }
        Ok(())
    }

    /// Uploads an open file, which lay at `from`. The object is there whole, or not at all.
    pub(crate) fn upload_file(
        &self,
        (mut file, from): (File, &Path),
        name: &str,
        blake3: &str,
        control: &Control,
    ) -> Result<()> {
        let size = file.metadata().map_err(Error::io(from))?.len();
        let path = self.path(name)?;
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata(HASH.into()), blake3.to_owned().into());
        let part = PART.max(size.div_ceil(MOST_PARTS));
        let mut next = || -> Result<Bytes> {
            let mut bytes = Vec::new();
            Read::by_ref(&mut file).take(part).read_to_end(&mut bytes).map_err(Error::io(from))?;
            Ok(bytes.into())
        };
        let about = || Error::io(self.name_of(name));
        let requests = Arc::clone(&self.requests);
        let store = Arc::clone(&self.store);
        if size <= part {
            return self.put_whole(name, next()?, attributes);
        }
        let begun = self.tasks.run(async move {
            let begin = || async {
                let attributes = attributes.clone();
                let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
                let begun = store.put_multipart_opts(&path, options).await;
                begun.map_err(|error| buckets::said(&error, &requests))
            };
            requests.repeat(begin).await
        });
        let mut upload = begun.map_err(about())?;
        let sent = self.send_parts(&mut *upload, size.div_ceil(part), next, control, name);
        if let Err(error) = sent {
            // The parts are not kept, and paid for, longer than needed.
            let _ = self
                .tasks
                .begin(async move { tokio::time::timeout(ABORT, upload.abort()).await })
                .wait_for(ABORT);
            return Err(error);
        }
        let requests = Arc::clone(&self.requests);
        let done = self.tasks.run(async move {
            upload.complete().await.map(drop).map_err(|error| buckets::said(&error, &requests))
        });
        match done {
            // The answer to the first try may have been lost.
            Err(_) if self.holds(name, size, blake3)? => Ok(()),
            done => done.map_err(about()),
        }
    }

    /// Sends the parts of an upload, some at a time.
    fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        count: u64,
        mut next: impl FnMut() -> Result<Bytes>,
        control: &Control,
        name: &str,
    ) -> Result<()> {
        let mut under_way: VecDeque<Pending<object_store::Result<()>>> = VecDeque::new();
        let wait = |pending: Pending<object_store::Result<()>>| -> Result<()> {
            let sent = pending.wait().map_err(Error::io(self.name_of(name)))?;
            sent.map_err(|error| {
                Error::io(self.name_of(name))(buckets::said(&error, &self.requests))
            })
        };
        for _ in 0..count {
            control.tick()?;
            if under_way.len() == AT_A_TIME
                && let Some(first) = under_way.pop_front()
            {
                wait(first)?;
            }
            let part = upload.put_part(PutPayload::from(next()?));
            under_way.push_back(self.tasks.begin(part));
        }
        under_way.into_iter().try_for_each(wait)
    }
}
