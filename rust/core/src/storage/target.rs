//! [`Target`]: a folder of a bucket that a job writes to.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::{
    Attribute, Attributes, GetOptions, MultipartUpload, ObjectStore, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, UpdateVersion,
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
use crate::wording::{message, set};

/// Bytes of a part of an upload, unless the file would have too many.
const PART: u64 = 8 << 20;

/// The most parts of an upload that all stores take.
const MOST_PARTS: u64 = 9000;

/// Parts that are sent at a time.
const AT_A_TIME: usize = 4;

/// The attribute of an object that holds the BLAKE3 hash of its bytes.
const HASH: &str = "blake3";

/// The time after which a lock that was not renewed is of a run that has ended.
const LEASE: Duration = Duration::from_secs(30);

/// The time between two renewals of a lock.
const RENEWAL: Duration = Duration::from_secs(8);

/// The time between two looks at the lock of another run.
const LOOK: Duration = Duration::from_millis(500);

/// The time before another try to make a lock that was given back.
const RETRY: Duration = Duration::from_millis(50);

/// The time that ending an upload that has failed may take.
const ABORT: Duration = Duration::from_secs(5);

/// The key of the lock in the folder.
const LOCK: &str = ".fastpack/lock";

/// A folder of a bucket.
#[derive(Debug)]
pub(crate) struct Target {
    address: Address,
    prefix: String,
    store: Arc<dyn ObjectStore>,
    tasks: Arc<Tasks>,
    requests: Arc<Requests>,
}

/// An object of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name in the folder.
    pub(crate) name: String,
    /// The size in bytes.
    pub(crate) bytes: u64,
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

    fn path(&self, name: &str) -> Result<object_store::path::Path> {
        buckets::path_of(&self.key(name)).map_err(Error::io(self.name_of(name)))
    }

    /// All objects of the folder but the lock, sorted by name.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        let prefix = if self.prefix.is_empty() {
            None
        } else {
            Some(buckets::path_of(&self.prefix).map_err(Error::io(self.name()))?)
        };
        let (store, requests) = (Arc::clone(&self.store), Arc::clone(&self.requests));
        let listed = self.tasks.run(bucket::list(store, prefix, requests));
        let listed = listed.map_err(Error::io(self.name()))?;
        let inside = |key: &str| {
            let name = key.strip_prefix(&self.prefix).unwrap_or(key);
            name.strip_prefix('/').unwrap_or(name).to_owned()
        };
        let entries =
            listed.into_iter().map(|(key, stat)| Entry { name: inside(&key), bytes: stat.size });
        Ok(entries.filter(|entry| entry.name != LOCK).collect())
    }

    /// The bytes of an object; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.read_version(name)?.map(|(bytes, _)| bytes))
    }

    /// The bytes of an object and their version; `None` if there is none.
    fn read_version(&self, name: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
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
            use object_store::ObjectStoreExt;
            match store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(buckets::said(&error, &requests)),
            }
        });
        removed.map_err(Error::io(self.name_of(name)))
    }

    /// Uploads the file at `from`. The object is there whole, or not at all.
    pub(crate) fn upload(
        &self,
        from: &Path,
        name: &str,
        blake3: &str,
        control: &Control,
    ) -> Result<()> {
        let mut file = File::open(from).map_err(Error::io(from))?;
        let size = file.metadata().map_err(Error::io(from))?.len();
        let path = self.path(name)?;
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata(HASH.into()), blake3.to_owned().into());
        let part = PART.max(size.div_ceil(MOST_PARTS));
        let mut next = || -> Result<Bytes> {
            let mut bytes = Vec::new();
            file.by_ref().take(part).read_to_end(&mut bytes).map_err(Error::io(from))?;
            Ok(bytes.into())
        };
        let about = || Error::io(self.name_of(name));
        let requests = Arc::clone(&self.requests);
        let store = Arc::clone(&self.store);
        if size <= part {
            let bytes = next()?;
            let options = PutOptions { attributes, ..PutOptions::default() };
            let put = self.tasks.run(async move {
                let put = store.put_opts(&path, PutPayload::from(bytes), options).await;
                put.map(drop).map_err(|error| buckets::said(&error, &requests))
            });
            return put.map_err(about());
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
        let mut under_way: std::collections::VecDeque<Pending<object_store::Result<()>>> =
            std::collections::VecDeque::new();
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

    /// Takes the lock of the folder: an object that is made only if there is none, and renewed as long as the run lasts.
    ///
    /// A lock that is not renewed for [`LEASE`] is of a run that has ended, and so is one with the same `owner`, which
    /// holds a lock of the local disk.
    pub(crate) fn lock(&self, owner: &str, wait: bool, control: &Control) -> Result<Lease> {
        let mut seen: Option<(Option<String>, Instant)> = None;
        loop {
            control.tick()?;
            if let Some(version) = self.put_lock(owner, PutMode::Create)? {
                // A store without conditional puts takes this too.
                if self.put_lock(owner, PutMode::Create)?.is_some() {
                    self.remove(LOCK)?;
                    let reason = "its store does not refuse to write over an object (conditional put), so that two runs \
                                  could write here at a time; write to a folder, and copy it";
                    return Err(Error::output(self.name(), reason));
                }
                return Ok(self.renewed(owner, version));
            }
            let Some((held_by, version)) = self.read_lock()? else {
                // It was given back meanwhile.
                std::thread::sleep(RETRY);
                continue;
            };
            let is_stale = match &seen {
                Some((etag, since)) if *etag == version.e_tag => since.elapsed() > LEASE,
                other => {
                    // A lock that changes is renewed by a run that lasts.
                    if other.is_some() && !wait {
                        let reason = message![
                            "another process packs into it; ",
                            set("wait", true),
                            " waits for it"
                        ];
                        return Err(Error::output(self.name(), reason));
                    }
                    seen = Some((version.e_tag.clone(), Instant::now()));
                    false
                }
            };
            if held_by == owner || is_stale {
                if let Some(version) = self.put_lock(owner, PutMode::Update(version))? {
                    return Ok(self.renewed(owner, version));
                }
                continue;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Writes the lock; `None` if the mode does not allow it.
    fn put_lock(&self, owner: &str, mode: PutMode) -> Result<Option<UpdateVersion>> {
        let (store, path) = (Arc::clone(&self.store), self.path(LOCK)?);
        let (requests, text) = (Arc::clone(&self.requests), lock_text(owner));
        let put =
            self.tasks.run(async move { put_lock(&*store, &path, &text, mode, &requests).await });
        put.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::output(
                self.name(),
                "lies in a bucket that is not there; make the bucket first",
            ),
            _ => Error::io(self.name_of(LOCK))(error),
        })
    }

    /// The owner of the lock, and its version; `None` if there is no lock.
    fn read_lock(&self) -> Result<Option<(String, UpdateVersion)>> {
        let owner = |bytes: Bytes| {
            String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()
        };
        Ok(self.read_version(LOCK)?.map(|(bytes, version)| (owner(bytes), version)))
    }

    /// A lock that is renewed until it is dropped.
    fn renewed(&self, owner: &str, version: UpdateVersion) -> Lease {
        let lost = Arc::new(Mutex::new(false));
        let (store, path) =
            (Arc::clone(&self.store), self.path(LOCK).expect("it was just written"));
        let (requests, owner) = (Arc::clone(&self.requests), owner.to_owned());
        let told = Arc::clone(&lost);
        let renewal = self.tasks.begin(async move {
            let (mut version, mut since) = (version, Instant::now());
            loop {
                tokio::time::sleep(RENEWAL).await;
                let mode = PutMode::Update(version.clone());
                match put_lock(&*store, &path, &lock_text(&owner), mode, &requests).await {
                    Ok(Some(new)) => (version, since) = (new, Instant::now()),
                    Err(_) if since.elapsed() < LEASE => {}
                    Ok(None) | Err(_) => {
                        *told.lock().unwrap_or_else(PoisonError::into_inner) = true;
                        return;
                    }
                }
            }
        });
        Lease { lost, _renewal: renewal }
    }

    /// Fails if another run has taken the lock.
    pub(crate) fn check(&self, lease: &Lease) -> Result<()> {
        if !*lease.lost.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        let reason =
            "another process has taken its lock, which could not be renewed in time; run again";
        Err(Error::output(self.name(), reason))
    }

    /// Gives the lock back.
    pub(crate) fn unlock(&self, lease: Lease) -> Result<()> {
        self.check(&lease)?;
        drop(lease);
        self.remove(LOCK)
    }
}

/// A lock that is being renewed.
#[derive(Debug)]
pub(crate) struct Lease {
    lost: Arc<Mutex<bool>>,
    _renewal: Pending<()>,
}

/// The content of a lock: its owner, and a line that no other content has.
fn lock_text(owner: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{owner}\n{:016x}\n", RandomState::new().hash_one(Instant::now()))
}

/// Writes a lock; `None` if the mode does not allow it.
async fn put_lock(
    store: &dyn ObjectStore,
    path: &object_store::path::Path,
    text: &str,
    mode: PutMode,
    requests: &Requests,
) -> io::Result<Option<UpdateVersion>> {
    let put = || async {
        let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
        match store.put_opts(path, PutPayload::from(text.to_owned()), options).await {
            Ok(put) => return Ok(Some(put.into())),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => {}
            // A lock to be renewed is gone. To one that is to be made, it says that there is no bucket.
            Err(object_store::Error::NotFound { .. }) if matches!(mode, PutMode::Update(_)) => {}
            Err(error) => return Err(buckets::said(&error, requests)),
        }
        // The answer to a first try may have been lost.
        let Ok(got) = store.get_opts(path, GetOptions::default()).await else { return Ok(None) };
        let (e_tag, version) = (got.meta.e_tag.clone(), got.meta.version.clone());
        let bytes = got.bytes().await.map_err(|error| buckets::said(&error, requests))?;
        Ok((*bytes == *text.as_bytes()).then_some(UpdateVersion { e_tag, version }))
    };
    requests.repeat(put).await
}
