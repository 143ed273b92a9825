//! [`ObjectRequests`]: the requests for bytes of one object. A body that breaks off is resumed at its offset.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, ObjectStore};

use crate::config::{FileFacts, FileSystem};
use crate::storage::buckets;
use crate::storage::cache::BlockCache;
use crate::storage::cancelled_or_changed::CancelledOrChanged;
use crate::storage::http::retrying_client::{RetryingClient, deepest};
use crate::storage::http::web_object::{BytesAnswer, WebObject};
use crate::storage::object_stat::ObjectStat;

/// The store or the server that holds the bytes of an object.
#[derive(Debug)]
pub(in crate::storage) enum ObjectBackend {
    /// In a bucket.
    Bucket(Arc<dyn ObjectStore>, object_store::path::Path),
    /// On a web server.
    Web(Box<WebObject>),
    /// On a file system of the caller.
    FileSystem(Arc<dyn FileSystem>, FileFacts),
}

/// The part of an object that its requests need.
#[derive(Debug)]
pub(super) struct ObjectRequests {
    pub(super) backend: ObjectBackend,
    pub(super) stat: ObjectStat,
    /// All bytes, if the answer that told of the object held them.
    pub(super) whole: Option<Bytes>,
    /// The name that the block cache knows the object by; `None` if its content cannot be told apart.
    pub(super) known_as: Option<String>,
    pub(super) client: Arc<RetryingClient>,
    pub(super) cache: Option<Arc<BlockCache>>,
    /// The first failure. It ends the run, even if the reader of the bytes went on.
    pub(super) failed: Mutex<Option<Arc<io::Error>>>,
}

impl ObjectRequests {
    /// Fetches bytes, from the block cache if they are there.
    pub(super) async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
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
                let stat = buckets::listing::stat_of(&got.meta);
                if !self.stat.is_same(&stat) || got.range.start != range.start {
                    return Err(CancelledOrChanged::Changed.into());
                }
                let mut body = got.into_stream();
                while let Some(chunk) = body.next().await {
                    match chunk {
                        Ok(chunk) => bytes.extend_from_slice(&chunk),
                        Err(error) => {
                            return Ok(Some(deepest(&error)));
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
                    return Err(CancelledOrChanged::Changed.into());
                };
                bytes.extend_from_slice(&read);
                Ok(None)
            }
            ObjectBackend::Web(web) => {
                match web.get(range, Some(&self.stat), &self.client).await? {
                    BytesAnswer::Bytes(mut answer) => answer.append_to(bytes).await,
                    BytesAnswer::Empty(_) => Err(CancelledOrChanged::Changed.into()),
                }
            }
        }
    }
}

/// An error once more: the request's failure is told to each reader of the object, with its source.
pub(super) fn failed_again(error: &Arc<io::Error>) -> io::Error {
    match CancelledOrChanged::of(error) {
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
