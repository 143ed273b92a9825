//! The objects of a [`BucketFolder`] that are written and removed: the only place where a store is told to do so.
//!
//! An object is written to a free name, or over a version that is proved to be fastpack's (`crate::util::disk::removal`), by conditions that
//! the store checks.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion,
};

use super::bucket_folder::{BucketFolder, LOCK, ListedObject, plain_etag};
use crate::error::{Error, Result};
use crate::storage::buckets;
use crate::storage::request_threads::Pending;
use crate::util::control::Control;
use crate::util::disk::expected_hash::ExpectedHash;
use crate::util::disk::removal::{Evidence, Medium, Proof, prove, remove};
use crate::util::start_thread::FILE_THREADS;
use crate::util::threads_in_order::ordered;

/// The names up to which their versions are asked for one by one. More are listed.
const MOST_REQUESTS: usize = 8;

/// The times that a small object is written again, if others write it at the same time.
const TRIES: usize = 5;

/// The version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) bytes: u64,
    /// The etag without its quotes, which lists leave out.
    etag: String,
    /// The version of stores that write by it.
    update: Option<String>,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.etag == other.etag
    }
}

impl Version {
    pub(crate) fn of(bytes: u64, etag: Option<&str>, update: Option<String>) -> Self {
        Self { bytes, etag: plain_etag(etag.unwrap_or_default()).to_owned(), update }
    }

    fn of_entry(entry: &ListedObject) -> Self {
        Self::of(entry.bytes, entry.etag.as_deref(), None)
    }

    /// The etag, by which an object is known again; `None` where the store gives none.
    pub(crate) fn etag(&self) -> Option<&str> {
        Some(&*self.etag).filter(|etag| !etag.is_empty())
    }

    /// The condition of a request.
    fn condition(&self) -> UpdateVersion {
        let etag = (!self.etag.is_empty()).then(|| format!("\"{}\"", self.etag));
        UpdateVersion { e_tag: etag, version: self.update.clone() }
    }
}

impl Medium for BucketFolder {
    type Name = String;
    type Stamp = Version;
    type Failure = Error;

    fn stamps(&self, names: &[String]) -> Result<Vec<Option<Version>>> {
        if names.len() > MOST_REQUESTS {
            let listed = self.entries_in("")?;
            let found = |name: &String| {
                let at = listed.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
                Some(Version::of_entry(&listed[at]))
            };
            return Ok(names.iter().map(found).collect());
        }
        let (mut remaining, mut stamps) = (names.iter(), Vec::with_capacity(names.len()));
        let ask = |name: &String| self.version(name);
        let take = |stamp| {
            stamps.push(stamp);
            Ok::<_, Error>(())
        };
        ordered(FILE_THREADS, || Ok(remaining.next()), || ask, take)?;
        Ok(stamps)
    }

    /// As many in a request as the store allows.
    fn unlink(&self, names: &[String]) -> Result<()> {
        let paths: Vec<_> = names.iter().map(|name| self.path(name)).collect::<Result<_>>()?;
        let removed = self.begin_unlink(paths).wait().and_then(|removed| removed);
        removed.map_err(Error::io(self.name()))
    }
}

impl BucketFolder {
    pub(crate) fn begin_unlink(&self, paths: Vec<Path>) -> Pending<io::Result<()>> {
        let (store, client) = (self.store.clone(), self.client.clone());
        self.tasks.begin(async move {
            let remove = || async {
                if let [path] = &*paths {
                    return match store.delete(path).await {
                        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                        Err(error) => Err(buckets::to_io_error(&error, &client)),
                    };
                }
                let paths = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
                let mut removed = store.delete_stream(paths);
                while let Some(removed) = removed.next().await {
                    match removed {
                        Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => return Err(buckets::to_io_error(&error, &client)),
                    }
                }
                Ok(())
            };
            client.repeat(remove).await
        })
    }

    /// Removes the objects of these names that the evidence claims. Returns the names of those that have changed since.
    pub(crate) fn remove_own(
        &self,
        names: impl IntoIterator<Item = String>,
        evidence: &impl Evidence<Self>,
    ) -> Result<Vec<String>> {
        remove(self, names.into_iter().filter_map(|name| prove(evidence, &name)).collect())
    }

    /// The bytes of an object and their version; `None` if there is none.
    pub(crate) fn read_version(&self, name: &str) -> Result<Option<(Bytes, Version)>> {
        let read = self.read_update(name)?;
        Ok(read.map(|(bytes, UpdateVersion { e_tag, version })| {
            let version = Version::of(bytes.len() as u64, e_tag.as_deref(), version);
            (bytes, version)
        }))
    }

    /// The version of an object; `None` if there is none.
    pub(crate) fn version(&self, name: &str) -> Result<Option<Version>> {
        let (store, path) = (self.store.clone(), self.path(name)?);
        let client = self.client.clone();
        let found = self.tasks.run(async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            match store.get_opts(&path, options).await {
                Ok(got) => {
                    let meta = got.meta;
                    Ok(Some(Version::of(meta.size, meta.e_tag.as_deref(), meta.version)))
                }
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(buckets::to_io_error(&error, &client)),
            }
        });
        found.map_err(Error::io(self.name_of(name)))
    }

    /// The version of an object, if it has this size, and its bytes this hash: they are read.
    pub(crate) fn holds(
        &self,
        name: &str,
        bytes: u64,
        mut expected: ExpectedHash<'_>,
        control: &Control,
    ) -> Result<Option<Version>> {
        let Some(version) = self.version(name)?.filter(|it| it.bytes == bytes) else {
            return Ok(None);
        };
        self.download(name, &mut expected, control)?;
        let is_same = self.version(name)?.is_some_and(|after| after == version);
        Ok((is_same && expected.is_it()).then_some(version))
    }

    /// Writes a small object to a name that must be free.
    ///
    /// Fails with [`Error::Output`] if another object lies there.
    pub(crate) fn write_new(&self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        match self.write_if(name, &bytes.into(), PutMode::Create)? {
            Some(_) => Ok(()),
            None => Err(self.in_the_way(name)),
        }
    }

    /// Writes a small object, over one that the evidence claims if there is one.
    ///
    /// Fails with [`Error::Output`] if an object of somebody else lies there.
    pub(crate) fn write_own(
        &self,
        name: &str,
        bytes: impl Into<Bytes>,
        evidence: &impl Evidence<Self>,
    ) -> Result<()> {
        let (bytes, name) = (bytes.into(), name.to_owned());
        for _ in 0..TRIES {
            let mode = match self.version(&name)? {
                None => PutMode::Create,
                Some(found) => match prove(evidence, &name) {
                    Some(proof) if proof.stamp().is_none_or(|stamp| *stamp == found) => {
                        PutMode::Update(found.condition())
                    }
                    _ => return Err(self.in_the_way(&name)),
                },
            };
            if self.write_if(&name, &bytes, mode)?.is_some() {
                return Ok(());
            }
        }
        Err(self.in_the_way(&name))
    }

    /// The error for an object of somebody else where one of this job has to lie.
    pub(crate) fn in_the_way(&self, name: &str) -> Error {
        let reason = "has come to lie there while this ran, or has changed since fastpack wrote it, and is not replaced; move it \
                    away, and run again";
        Error::io(self.name_of(name))(io::Error::new(io::ErrorKind::AlreadyExists, reason))
    }

    /// Writes an object by a name that is proved to be one of this job alone.
    pub(crate) fn write_by_name(&self, proof: &Proof<Self>, bytes: &Bytes) -> Result<Version> {
        let written = self.write_if(proof.name(), bytes, PutMode::Overwrite)?;
        written.ok_or_else(|| self.in_the_way(proof.name()))
    }

    /// Writes an object; `None` if the mode does not allow it.
    fn write_if(&self, name: &str, bytes: &Bytes, mode: PutMode) -> Result<Option<Version>> {
        let (store, path) = (self.store.clone(), self.path(name)?);
        let client = self.client.clone();
        let size = bytes.len() as u64;
        let sent = bytes.clone();
        let written = self.tasks.run(async move {
            let write = || async {
                let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
                match store.put_opts(&path, PutPayload::from(sent.clone()), options).await {
                    Ok(answer) => {
                        Ok(Some(Version::of(size, answer.e_tag.as_deref(), answer.version)))
                    }
                    Err(
                        object_store::Error::AlreadyExists { .. }
                        | object_store::Error::Precondition { .. },
                    ) => Ok(None),
                    Err(error) => Err(buckets::to_io_error(&error, &client)),
                }
            };
            client.repeat(write).await
        });
        match written.map_err(Error::io(self.name_of(name)))? {
            None => {
                // The answer to a first try may have been lost.
                let found = self.read_version(name)?;
                Ok(found.filter(|(found, _)| *found == bytes).map(|(_, version)| version))
            }
            version => Ok(version),
        }
    }

    /// Has the store copy an object to a name that must be free; false if it is not.
    pub(crate) fn copy_by(
        &self,
        copier: &Arc<dyn ObjectStore>,
        from: &str,
        to: &str,
    ) -> Result<bool> {
        let (store, client) = (copier.clone(), self.client.clone());
        let (source, place) = (self.path(from)?, self.path(to)?);
        let done = self.tasks.run(async move {
            let copy = || async {
                let options = CopyOptions::new().with_mode(CopyMode::Create);
                match store.copy_opts(&source, &place, options).await {
                    Ok(()) => Ok(true),
                    Err(
                        object_store::Error::AlreadyExists { .. }
                        | object_store::Error::Precondition { .. },
                    ) => Ok(false),
                    Err(error) => Err(buckets::to_io_error(&error, &client)),
                }
            };
            client.repeat(copy).await
        });
        done.map_err(Error::io(self.name_of(from)))
    }

    /// True if the store cannot copy an object of this size in one request.
    pub(crate) fn copies_no(&self, bytes: u64) -> bool {
        bytes > self.most_copied
    }

    /// Has the store copy an object of this size and hash to a name that must be free.
    ///
    /// Fails with [`Error::Io`] if another object lies there.
    pub(crate) fn copy_new(
        &self,
        from: &str,
        to: &str,
        bytes: u64,
        expected: ExpectedHash<'_>,
        control: &Control,
    ) -> Result<()> {
        let copier = self.copier.get().unwrap_or(&self.store);
        // The answer to a first try may have been lost.
        if self.copy_by(copier, from, to)? || self.holds(to, bytes, expected, control)?.is_some() {
            return Ok(());
        }
        Err(self.in_the_way(to))
    }

    /// Finds out how the store copies to a free name alone. `trial` is a name of this run. The lock is held.
    ///
    /// Fails with [`Error::Output`] if it copies over an object although it was told not to, or does not know the condition.
    pub(crate) fn refuse_unconditional_copy(&self, trial: &Proof<Self>) -> Result<()> {
        let mut refused = None;
        for copier in &self.copiers {
            let name = trial.name();
            let tried = self.copy_by(copier, LOCK, name);
            let tried = tried.and_then(|_| self.copy_by(copier, LOCK, name));
            if tried.is_ok() {
                self.unlink(std::slice::from_ref(name))?;
            }
            match tried {
                Ok(false) => {
                    let _ = self.copier.set(copier.clone());
                    return Ok(());
                }
                Ok(true) => {}
                Err(error) if is_of_access(&error) => return Err(error),
                Err(error) => refused = Some(error),
            }
        }
        let detail = refused.map(|error| format!(" ({error})")).unwrap_or_default();
        let reason = format!(
            "its store does not refuse to copy over an object (conditional copy), so that files of others could be \
             replaced{detail}; write to a folder, and copy it"
        );
        Err(Error::output(self.name(), reason))
    }
}

/// True if no other kind of request avoids this error.
fn is_of_access(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if matches!(
        source.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ConnectionAborted | io::ErrorKind::TimedOut
    ))
}
