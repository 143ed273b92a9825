//! Uploads of files to a [`BucketFolder`]: small ones at once, large ones in parts.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};

use super::bucket_folder::{BucketFolder, LOCK};
use super::objects::Version;
use crate::error::{Error, Result};
use crate::storage::buckets;
use crate::storage::request_threads::Pending;
use crate::util::control::Control;
use crate::util::disk::expected_hash::ExpectedHash;
use crate::util::disk::removal::Proof;

/// Bytes of a part of an upload, unless the file would have too many.
const PART: u64 = 8 << 20;

/// The most parts of an upload that all stores take.
const MOST_PARTS: u64 = 9000;

/// Parts that are sent at a time.
const AT_A_TIME: usize = 4;

/// The time that ending an upload that has failed may take.
const ABORT: Duration = Duration::from_secs(5);

/// An open file of the local disk that is uploaded if its bytes have the hash that is expected.
pub(crate) struct FileToUpload<'a> {
    pub(crate) file: File,
    /// Its path when it was opened.
    pub(crate) path: &'a Path,
    pub(crate) expected: ExpectedHash<'a>,
}

impl FileToUpload<'_> {
    fn size(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(Error::io(self.path))?.len())
    }

    /// The bytes of a small file.
    fn read_whole(self) -> Result<Vec<u8>> {
        let Self { mut file, path, mut expected } = self;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io(path))?;
        expected.update(&bytes);
        expected.refuse_other(path)?;
        Ok(bytes)
    }
}

impl BucketFolder {
    /// True if a file is so small that one request writes it, on a condition.
    pub(crate) fn is_small(bytes: u64) -> bool {
        bytes <= PART
    }

    /// Uploads a small file to a name that must be free.
    ///
    /// Fails with [`Error::Io`] if another object lies there, or if the file has not the hash that is expected.
    pub(crate) fn upload_new(&self, file: FileToUpload<'_>, name: &str) -> Result<()> {
        self.write_new(name, file.read_whole()?)
    }

    /// Uploads a file by a name that is proved to be one of this job alone. The object is there whole, or not at all. Returns its
    /// version.
    ///
    /// Fails with [`Error::Io`] if the file has not the hash that is expected.
    pub(crate) fn upload(
        &self,
        file: FileToUpload<'_>,
        proof: &Proof<Self>,
        control: &Control,
    ) -> Result<Version> {
        if file.size()? > PART {
            return self.upload_parts(file, proof.name(), control);
        }
        self.write_by_name(proof, &file.read_whole()?.into())
    }

    /// Uploads a file that the store does not copy at once to a name that must be free.
    ///
    /// Fails with [`Error::Io`] if another object lies there, or if the file has not the hash that is expected.
    pub(crate) fn upload_uncopied(
        &self,
        file: FileToUpload<'_>,
        name: &str,
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
        self.client.complete_new_only(self.path(name)?.as_ref());
        self.upload_parts(file, name, control).map(drop)
    }

    fn upload_parts(
        &self,
        file: FileToUpload<'_>,
        name: &str,
        control: &Control,
    ) -> Result<Version> {
        let size = file.size()?;
        let FileToUpload { mut file, path: from, mut expected } = file;
        let again = expected.afresh();
        let path = self.path(name)?;
        let part = PART.max(size.div_ceil(MOST_PARTS));
        let next = || -> Result<Bytes> {
            let mut bytes = Vec::new();
            Read::by_ref(&mut file).take(part).read_to_end(&mut bytes).map_err(Error::io(from))?;
            expected.update(&bytes);
            Ok(bytes.into())
        };
        let about = || Error::io(self.name_of(name));
        let (store, client) = (self.store.clone(), self.client.clone());
        let begun = self.tasks.run(async move {
            let begin = || async {
                let begun = store.put_multipart(&path).await;
                begun.map_err(|error| buckets::to_io_error(&error, &client))
            };
            client.repeat(begin).await
        });
        let mut upload = begun.map_err(about())?;
        let sent = self.send_parts(&mut *upload, size.div_ceil(part), next, control, name);
        let sent = sent.and_then(|()| expected.refuse_other(from));
        if let Err(error) = sent {
            // The parts are not kept, and paid for, longer than needed.
            let _ = self
                .tasks
                .begin(async move { tokio::time::timeout(ABORT, upload.abort()).await })
                .wait_for(ABORT);
            return Err(error);
        }
        let client = self.client.clone();
        let done = self.tasks.run(async move {
            let done = upload.complete().await;
            if done.is_err() {
                // The name may be taken.
                let _ = tokio::time::timeout(ABORT, upload.abort()).await;
            }
            done.map_err(|error| buckets::to_io_error(&error, &client))
        });
        match done {
            Ok(answer) => Ok(Version::of(size, answer.e_tag.as_deref(), answer.version)),
            // The answer to the first try may have been lost.
            Err(error) => self.holds(name, size, again, control)?.ok_or_else(|| about()(error)),
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
                Error::io(self.name_of(name))(buckets::to_io_error(&error, &self.client))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::storage::buckets::objects::Version;
    use crate::storage::buckets::s3_server_for_tests::S3Server;
    use crate::util::disk::removal::{Claim, Evidence, Medium, prove};

    /// Any name, as one of this job.
    struct AnyName;

    impl Evidence<BucketFolder> for AnyName {
        fn claim(&self, _: &String) -> Claim<Version> {
            Claim::Name
        }
    }

    fn file_to_upload<'a>(path: &'a Path, blake3: &'a str) -> FileToUpload<'a> {
        let file = File::open(path).expect("a file");
        FileToUpload { file, path, expected: ExpectedHash::of_bytes(blake3) }
    }

    /// The ways to upload a file to `name`.
    fn upload(
        way: usize,
        target: &BucketFolder,
        path: &Path,
        name: &str,
        blake3: &str,
    ) -> Result<()> {
        let (file, control) = (file_to_upload(path, blake3), Control::default());
        let proof = prove(&AnyName, &name.to_owned()).expect("any name");
        match way {
            0 => target.upload_new(file, name),
            1 => target.upload(file, &proof, &control).map(drop),
            _ => target.upload_parts(file, name, &control).map(drop),
        }
    }

    #[test]
    fn a_file_that_has_changed_since_it_was_written_is_not_uploaded() {
        let target = BucketFolder::over(Arc::new(InMemory::new()));
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("train-00000.arrow");
        let part = usize::try_from(PART).expect("a small number");
        for (way, size) in [(0, 100), (1, 100), (1, 2 * part + 5), (2, 100), (2, 2 * part)] {
            let mut bytes = vec![7; size];
            let blake3 = blake3::hash(&bytes).to_hex().to_string();
            for at in [0, size / 2, size - 1] {
                bytes[at] ^= 1;
                fs::write(&path, &bytes).expect("room");
                let refused = upload(way, &target, &path, "changed", &blake3);
                let message = refused.expect_err("it has changed").to_string();
                assert!(
                    message.contains("train-00000.arrow") && message.contains("has changed"),
                    "{message}"
                );
                assert!(target.entries().expect("a list").is_empty(), "way {way}, {size} bytes");
                bytes[at] ^= 1;
            }
            fs::write(&path, &bytes).expect("room");
            upload(way, &target, &path, "whole", &blake3).expect("room");
            assert!(target.read("whole").expect("an object").expect("it is there") == bytes);
            target.unlink(&["whole".to_owned()]).expect("it is there");
        }
    }

    /// A folder of a bucket of S3's protocol that copies only small objects, with the lock in it; a file that it does not
    /// copy, and the hash of the file.
    fn uncopied(
        server: &S3Server,
        dir: &Path,
    ) -> (BucketFolder, std::path::PathBuf, Vec<u8>, String) {
        let opened = BucketFolder::open("s3://bucket/packed", &server.options(), Arc::default());
        let target = BucketFolder { most_copied: 1 << 20, ..opened.expect("a server") };
        target.write_new(LOCK, "locked").expect("room");
        let path = dir.join("train-00000.arrow");
        let size = 2 * usize::try_from(PART).expect("a small number") + 77;
        let bytes: Vec<u8> = (0..251_u8).cycle().take(size).collect();
        fs::write(&path, &bytes).expect("room");
        assert!(target.copies_no(size as u64) && !target.copies_no(1 << 20));
        let blake3 = blake3::hash(&bytes).to_hex().to_string();
        (target, path, bytes, blake3)
    }

    fn upload_uncopied(target: &BucketFolder, path: &Path, blake3: &str) -> Result<()> {
        let file = file_to_upload(path, blake3);
        target.upload_uncopied(file, "train-00000.arrow", &Control::default())
    }

    #[test]
    fn a_file_that_the_store_does_not_copy_is_completed_where_nothing_is() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let server = S3Server::start();
        let (target, path, bytes, blake3) = uncopied(&server, dir.path());
        upload_uncopied(&target, &path, &blake3).expect("nothing is in the way");
        let place = "packed/train-00000.arrow";
        server.with(|it| assert!(it.objects[place] == bytes));
        // The answer to the first try was lost: it is there.
        assert!(upload_uncopied(&target, &path, &blake3).is_err(), "the name is taken");
        server.with(|it| it.objects.remove(place));
        // Somebody else writes it meanwhile.
        let theirs = (place.to_owned(), b"theirs".to_vec());
        server.with(|it| it.comes_before_completion = Some(theirs.clone()));
        let refused = upload_uncopied(&target, &path, &blake3).expect_err("it is taken");
        assert!(refused.to_string().contains("train-00000.arrow"), "{refused}");
        server.with(|it| assert_eq!(it.objects[place], theirs.1));
        server.with(|it| it.objects.remove(place));
        // It has changed since it was written.
        fs::write(&path, &bytes[1..]).expect("room");
        let refused = upload_uncopied(&target, &path, &blake3).expect_err("it has changed");
        assert!(refused.to_string().contains("has changed"), "{refused}");
        server.with(|it| assert!(!it.objects.contains_key(place) && it.uploads.is_empty()));
    }

    #[test]
    fn a_store_that_completes_over_an_object_is_refused() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let server = S3Server::start();
        let (target, path, _, blake3) = uncopied(&server, dir.path());
        server.with(|it| it.ignores_conditions = true);
        let refused = upload_uncopied(&target, &path, &blake3).expect_err("it would replace");
        assert!(refused.to_string().contains("does not refuse to complete"), "{refused}");
        server.with(|it| assert!(!it.objects.contains_key("packed/train-00000.arrow")));
    }
}
