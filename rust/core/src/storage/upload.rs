//! Uploads of files to a [`Target`]: small ones at once, large ones in parts.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStore, PutMultipartOptions, PutPayload};

use super::buckets;
use super::objects::attributes;
use super::target::{LOCK, Target};
use super::tasks::Pending;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::removal::Proof;

/// Bytes of a part of an upload, unless the file would have too many.
const PART: u64 = 8 << 20;

/// The most parts of an upload that all stores take.
const MOST_PARTS: u64 = 9000;

/// Parts that are sent at a time.
const AT_A_TIME: usize = 4;

/// The time that ending an upload that has failed may take.
const ABORT: Duration = Duration::from_secs(5);

impl Target {
    /// Whether a file is so small that one request writes it, on a condition.
    pub(crate) fn is_small(bytes: u64) -> bool {
        bytes <= PART
    }

    /// Uploads a small open file, which lay at `from`, to a name that must be free.
    ///
    /// Fails with [`Error::Io`] if another object lies there.
    pub(crate) fn upload_new(
        &self,
        (mut file, from): (File, &Path),
        name: &str,
        blake3: &str,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io(from))?;
        self.put_new(name, bytes, Some(blake3)).map(drop)
    }

    /// Uploads an open file, which lay at `from`, by a name that is proved to be one of this job alone. The object is there whole,
    /// or not at all.
    pub(crate) fn upload(
        &self,
        (mut file, from): (File, &Path),
        proof: &Proof<Self>,
        blake3: &str,
        control: &Control,
    ) -> Result<()> {
        let name = proof.name();
        let size = file.metadata().map_err(Error::io(from))?.len();
        if size > PART.max(size.div_ceil(MOST_PARTS)) {
            return self.upload_parts((file, from), name, blake3, control);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io(from))?;
        self.put_by_name(proof, &bytes.into(), blake3)
    }

    /// Uploads an open file that the store does not copy at once, which lay at `from`, to a name that must be free.
    ///
    /// Fails with [`Error::Io`] if another object lies there.
    pub(crate) fn upload_uncopied(
        &self,
        file: (File, &Path),
        name: &str,
        blake3: &str,
        control: &Control,
    ) -> Result<()> {
        if self.version(name)?.is_some() {
            return Err(self.in_the_way(name));
        }
        // The last way to copy is an upload that is completed on the condition.
        if let [_, .., copier] = &*self.copiers
            && self.copy_by(copier, LOCK, LOCK)?
        {
            let reason = "its store does not refuse to complete an upload over an object, so that files of others could be replaced; \
                          write to a folder, and copy it";
            return Err(Error::output(self.name(), reason));
        }
        self.requests.complete_new_only(self.path(name)?.as_ref());
        self.upload_parts(file, name, blake3, control)
    }

    fn upload_parts(
        &self,
        (mut file, from): (File, &Path),
        name: &str,
        blake3: &str,
        control: &Control,
    ) -> Result<()> {
        let size = file.metadata().map_err(Error::io(from))?.len();
        let path = self.path(name)?;
        let part = PART.max(size.div_ceil(MOST_PARTS));
        let next = || -> Result<Bytes> {
            let mut bytes = Vec::new();
            Read::by_ref(&mut file).take(part).read_to_end(&mut bytes).map_err(Error::io(from))?;
            Ok(bytes.into())
        };
        let about = || Error::io(self.name_of(name));
        let (store, requests) = (self.store.clone(), self.requests.clone());
        let attributes = attributes(blake3);
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
        let requests = self.requests.clone();
        let done = self.tasks.run(async move {
            upload.complete().await.map(drop).map_err(|error| buckets::said(&error, &requests))
        });
        match done {
            // The answer to the first try may have been lost.
            Err(_) if self.holds(name, size, blake3, control)?.is_some() => Ok(()),
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
