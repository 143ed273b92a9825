//! [`Object`]: one object of a store or a web server, whose bytes are fetched by ranges.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::resumed_requests::{ObjectBackend, ObjectRequests, failed_again};
use crate::storage::cache::BlockCache;
use crate::storage::http::retrying_client::RetryingClient;
use crate::storage::http::web_object::HEAD;
use crate::storage::object_stat::ObjectStat;
use crate::storage::request_threads::{Pending, RequestThreads};

/// Bytes for which one unit of the read-ahead of a call stands.
const UNIT: u64 = 64 << 10;

/// Bytes that all readers of a call together read ahead.
pub(in crate::storage) const AHEAD: u64 = 96 << 20;

/// The parts that all objects of one call share.
#[derive(Debug)]
pub(in crate::storage) struct SharedParts {
    pub(in crate::storage) tasks: Arc<RequestThreads>,
    pub(in crate::storage) client: Arc<RetryingClient>,
    pub(in crate::storage) cache: Option<Arc<BlockCache>>,
    /// The units that may still be read ahead.
    ahead: Arc<Semaphore>,
}

impl SharedParts {
    pub(in crate::storage) fn new(
        tasks: Arc<RequestThreads>,
        client: Arc<RetryingClient>,
        cache: Option<Arc<BlockCache>>,
    ) -> Self {
        let units = usize::try_from(AHEAD / UNIT).expect("a small number");
        Self { tasks, client, cache, ahead: Arc::new(Semaphore::new(units)) }
    }
}

/// An object, as it was when it was found.
pub(crate) struct Object {
    /// The name for reports, errors and identities: the URL without user and query.
    pub(in crate::storage) name: Arc<Path>,
    remote: Arc<ObjectRequests>,
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
    pub(in crate::storage) fn new(
        name: &str,
        backend: ObjectBackend,
        stat: ObjectStat,
        head: Option<Bytes>,
        shared: &Arc<SharedParts>,
    ) -> Self {
        let known_as = stat.is_identified().then(|| format!("{name}\n{stat:?}"));
        let (client, cache) = (Arc::clone(&shared.client), shared.cache.clone());
        let whole = head.as_ref().filter(|head| head.len() as u64 == stat.size).cloned();
        let remote = ObjectRequests {
            backend,
            stat,
            whole,
            known_as,
            client,
            cache,
            failed: Mutex::default(),
        };
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
    pub(crate) fn stat(&self) -> &ObjectStat {
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
    pub(in crate::storage) fn begin(&self, range: Range<u64>) -> Fetched {
        let remote = Arc::clone(&self.remote);
        let bytes = range.clone();
        let pending = self.shared.tasks.begin(async move { remote.fetch(bytes).await });
        Fetched { range, pending, permit: None }
    }

    /// Begins to fetch bytes that will be needed; `None` if enough was begun.
    pub(in crate::storage) fn begin_ahead(&self, range: Range<u64>) -> Option<Fetched> {
        let units = u32::try_from((range.end - range.start).div_ceil(UNIT)).ok()?;
        let permit = Arc::clone(&self.shared.ahead).try_acquire_many_owned(units).ok()?;
        let mut begun = self.begin(range);
        begun.permit = Some(permit);
        Some(begun)
    }

    /// Fetches bytes.
    pub(in crate::storage) fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.begin(range).wait()
    }

    /// The first bytes, at most `wanted`.
    pub(in crate::storage) fn start(&self, wanted: u64) -> io::Result<Bytes> {
        let wanted = wanted.min(self.stat().size);
        if let Some(head) = self.head.get().filter(|head| head.len() as u64 >= wanted) {
            return Ok(head.slice(..usize::try_from(wanted).unwrap_or(head.len())));
        }
        let bytes = self.fetch(0..wanted)?;
        if wanted <= HEAD {
            let _ = self.head.set(bytes.clone());
        }
        Ok(bytes)
    }

    /// Keeps the first bytes.
    pub(in crate::storage) fn keep_start(&self, bytes: Bytes) {
        let _ = self.head.set(bytes);
    }
}

/// Bytes that are being fetched.
#[derive(Debug)]
pub(in crate::storage) struct Fetched {
    pub(in crate::storage) range: Range<u64>,
    pending: Pending<io::Result<Bytes>>,
    /// The share of the read-ahead that the bytes take.
    permit: Option<OwnedSemaphorePermit>,
}

impl Fetched {
    /// Waits for the bytes.
    pub(in crate::storage) fn wait(self) -> io::Result<Bytes> {
        let Self { pending, permit, .. } = self;
        let bytes = pending.wait()?;
        drop(permit);
        bytes
    }
}
