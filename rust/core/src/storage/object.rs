//! [`Object`]: one object of a store or a web server, whose bytes are fetched by ranges.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, ObjectStore};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::buckets;
use super::cache::BlockCache;
use super::cancelled_or_changed::Stopped;
use super::http::retrying_client::RetryingClient;
use super::http::web::{Got, Web};
use super::stat::Stat;
use super::tasks::{Pending, Tasks};
use crate::config::{FileFacts, FileSystem};

/// Bytes for which one unit of the read-ahead of a call stands.
const UNIT: u64 = 64 << 10;

/// Bytes that all readers of a call together read ahead.
pub(super) const AHEAD: u64 = 96 << 20;

/// The parts that all objects of one call share.
#[derive(Debug)]
pub(super) struct SharedParts {
    pub(super) tasks: Arc<Tasks>,
    pub(super) client: Arc<RetryingClient>,
    pub(super) cache: Option<Arc<BlockCache>>,
    /// The units that may still be read ahead.
    ahead: Arc<Semaphore>,
}

impl SharedParts {
    pub(super) fn new(
        tasks: Arc<Tasks>,
        client: Arc<RetryingClient>,
        cache: Option<Arc<BlockCache>>,
    ) -> Self {
        let units = usize::try_from(AHEAD / UNIT).expect("a small number");
        Self { tasks, client, cache, ahead: Arc::new(Semaphore::new(units)) }
    }
}

/// The store or the server that holds the bytes of an object.
#[derive(Debug)]
pub(super) enum ObjectBackend {
    /// In a bucket.
    Bucket(Arc<dyn ObjectStore>, object_store::path::Path),
    /// On a web server.
    Web(Box<Web>),
    /// On a file system of the caller.
    FileSystem(Arc<dyn FileSystem>, FileFacts),
}

/// The part of an object that its requests need.
#[derive(Debug)]
struct Remote {
    backend: ObjectBackend,
    stat: Stat,
    /// All bytes, if the answer that told of the object held them.
    whole: Option<Bytes>,
    /// The name that the block cache knows the object by; `None` if its content cannot be told apart.
    known_as: Option<String>,
    client: Arc<RetryingClient>,
    cache: Option<Arc<BlockCache>>,
    /// The first failure. It ends the run, even if the reader of the bytes went on.
    failed: Mutex<Option<Arc<io::Error>>>,
}

/// An object, as it was when it was found.
pub(crate) struct Object {
    /// The name for reports, errors and identities: the URL without user and query.
    pub(super) name: Arc<Path>,
    remote: Arc<Remote>,
    shared: Arc<SharedParts>,
    /// The first bytes, once they were needed.
    head: OnceLock<Bytes>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("name", &self.name)
            .field("stat", &self.remote.stat)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.remote.stat == other.remote.stat
    }
}

impl Eq for Object {}

impl Object {
    pub(super) fn new(
        name: &str,
        backend: ObjectBackend,
        stat: Stat,
        head: Option<Bytes>,
        shared: &Arc<SharedParts>,
    ) -> Self {
        let known_as = stat.is_identified().then(|| format!("{name}\n{stat:?}"));
        let (client, cache) = (Arc::clone(&shared.client), shared.cache.clone());
        let whole = head.as_ref().filter(|head| head.len() as u64 == stat.size).cloned();
        let remote =
            Remote { backend, stat, whole, known_as, client, cache, failed: Mutex::default() };
        let first = OnceLock::new();
        if let Some(head) = head {
            let _ = first.set(head);
        }
        Self {
            name: Arc::from(Path::new(name)),
            remote: Arc::new(remote),
            shared: Arc::clone(shared),
            head: first,
        }
    }

    pub(crate) fn name(&self) -> &Arc<Path> {
        &self.name
    }

    /// The size, etag and time when it was found.
    pub(crate) fn stat(&self) -> &Stat {
        &self.remote.stat
    }

    /// Fails with the first failure of any of its requests.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.shared.tasks.tick()?;
        let failed = self.remote.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failed {
            None => Ok(()),
            Some(error) => Err(failed_again(error)),
        }
    }

    /// Begins to fetch bytes.
    pub(super) fn begin(&self, range: Range<u64>) -> Fetched {
        let remote = Arc::clone(&self.remote);
        let bytes = range.clone();
        let pending = self.shared.tasks.begin(async move { remote.fetch(bytes).await });
        Fetched { range, pending, permit: None }
    }

    /// Begins to fetch bytes that will be needed; `None` if enough was begun.
    pub(super) fn begin_ahead(&self, range: Range<u64>) -> Option<Fetched> {
        let units = u32::try_from((range.end - range.start).div_ceil(UNIT)).ok()?;
        let permit = Arc::clone(&self.shared.ahead).try_acquire_many_owned(units).ok()?;
        let mut begun = self.begin(range);
        begun.permit = Some(permit);
        Some(begun)
    }

    /// Fetches bytes.
    pub(super) fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.begin(range).wait()
    }

    /// The first bytes, at most `wanted`.
    pub(super) fn start(&self, wanted: u64) -> io::Result<Bytes> {
        let wanted = wanted.min(self.stat().size);
        if let Some(head) = self.head.get().filter(|head| head.len() as u64 >= wanted) {
            return Ok(head.slice(..usize::try_from(wanted).unwrap_or(head.len())));
        }
        let bytes = self.fetch(0..wanted)?;
        if wanted <= super::http::web::HEAD {
            let _ = self.head.set(bytes.clone());
        }
        Ok(bytes)
    }

    /// Keeps the first bytes.
    pub(super) fn keep_start(&self, bytes: Bytes) {
        let _ = self.head.set(bytes);
    }
}

/// Bytes that are being fetched.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) range: Range<u64>,
    pending: Pending<io::Result<Bytes>>,
    /// The share of the read-ahead that the bytes take.
    permit: Option<OwnedSemaphorePermit>,
}

impl Fetched {
    /// Waits for the bytes.
    pub(super) fn wait(self) -> io::Result<Bytes> {
        let Self { pending, permit, .. } = self;
        let bytes = pending.wait()?;
        drop(permit);
        bytes
    }
}

impl Remote {
    /// Fetches bytes, from the block cache if they are there.
    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(whole) = &self.whole {
            let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(whole.len());
            return Ok(whole.slice(at(range.start)..at(range.end)));
        }
        let kept = self.cache.as_ref().zip(self.known_as.as_ref());
        if let Some((cache, name)) = kept
            && let Some(bytes) = cache.get(name, &range)
        {
            return Ok(bytes);
        }
        match self.fetch_all(&range).await {
            Ok(bytes) => {
                if let Some((cache, name)) = kept {
                    cache.keep_range(name, &range, &bytes);
                }
                Ok(bytes)
            }
            Err(error) => {
                let error = Arc::new(error);
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert_with(|| Arc::clone(&error));
                Err(failed_again(&error))
            }
        }
    }

    /// Fetches bytes by as many requests as it takes: a body that breaks off is resumed at its offset.
    async fn fetch_all(&self, range: &Range<u64>) -> io::Result<Bytes> {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = BytesMut::with_capacity(length);
        let mut backoff = self.client.backoff();
        loop {
            let before = bytes.len();
            let start = range.start + before as u64;
            let broken = self.fetch_some(start..range.end, &mut bytes).await?;
            bytes.truncate(length);
            if bytes.len() == length {
                return Ok(bytes.freeze());
            }
            if bytes.len() > before {
                backoff.restart();
                if broken.is_none() {
                    // The server sends fewer bytes at a time than it was asked for.
                    continue;
                }
            }
            let Some(wait) = backoff.next(None) else {
                let reason = broken.unwrap_or_else(|| "it ends too early".to_owned());
                let reason = self.client.shown(&reason);
                let at = range.start + bytes.len() as u64;
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    format!("the body breaks off at byte {at} again and again: {reason}"),
                ));
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Appends the bytes of one request. Returns the reason if it broke off.
    async fn fetch_some(
        &self,
        range: Range<u64>,
        bytes: &mut BytesMut,
    ) -> io::Result<Option<String>> {
        match &self.backend {
            ObjectBackend::Bucket(store, path) => {
                let options = GetOptions {
                    range: Some(GetRange::Bounded(range.clone())),
                    if_match: self.stat.quoted_etag(),
                    ..GetOptions::default()
                };
                let got = store.get_opts(path, options).await;
                let got = got.map_err(|error| buckets::to_io_error(&error, &self.client))?;
                let stat = super::buckets::listing::stat_of(&got.meta);
                if !self.stat.is_same(&stat) || got.range.start != range.start {
                    return Err(Stopped::Changed.into());
                }
                let mut body = got.into_stream();
                while let Some(chunk) = body.next().await {
                    match chunk {
                        Ok(chunk) => bytes.extend_from_slice(&chunk),
                        Err(error) => {
                            return Ok(Some(super::http::retrying_client::deepest(&error)));
                        }
                    }
                }
                Ok(None)
            }
            ObjectBackend::FileSystem(files, facts) => {
                let (files, facts) = (Arc::clone(files), facts.clone());
                let length = range.end - range.start;
                let read = tokio::task::spawn_blocking(move || files.read(&facts, range));
                let read = read.await.map_err(io::Error::other)??;
                let Some(read) = read.filter(|read| read.len() as u64 == length) else {
                    return Err(Stopped::Changed.into());
                };
                bytes.extend_from_slice(&read);
                Ok(None)
            }
            ObjectBackend::Web(web) => {
                match web.get(range, Some(&self.stat), &self.client).await? {
                    Got::Bytes(mut answer) => answer.append_to(bytes).await,
                    Got::Empty(_) => Err(Stopped::Changed.into()),
                }
            }
        }
    }
}

/// An error once more: the request's failure is told to each reader of the object, with its source.
fn failed_again(error: &Arc<io::Error>) -> io::Error {
    match Stopped::of(error) {
        Some(stopped) => stopped.into(),
        None => io::Error::new(error.kind(), ObjectFailure(Arc::clone(error))),
    }
}

/// A failure that several readers are told of.
#[derive(Debug)]
struct ObjectFailure(Arc<io::Error>);

impl fmt::Display for ObjectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ObjectFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.0.get_ref() {
            Some(inner) => Some(inner),
            None => Some(&*self.0),
        }
    }
}
