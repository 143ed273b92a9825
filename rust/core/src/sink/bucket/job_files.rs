//! [`BucketPlace`]: brings the finished files of a job to their places in a bucket, where there must be none.

use std::path::Path;

use super::run_names::RunNames;
use super::uploads::opened;
use crate::error::Result;
use crate::sink::manifest::{SizedFile, expected};
use crate::storage::{BucketFolder, FileToUpload};
use crate::util::control::Control;

/// The places of the files of a job, and the folder of the local disk in which they lie.
#[derive(Clone, Copy)]
pub(crate) struct BucketPlace<'a> {
    pub(crate) target: &'a BucketFolder,
    pub(crate) generation: &'a RunNames,
    pub(crate) dir: &'a Path,
    pub(crate) control: &'a Control,
}

impl BucketPlace<'_> {
    /// Brings a file to its place: from the name `from` of the bucket, or from the local disk, where its bytes must have the hash.
    ///
    /// A small file is written there on a condition. A large one is uploaded under a name of this run, and copied on a condition; one that the store does not copy at once is
    /// completed on a condition.
    pub(crate) fn place(self, file: SizedFile<'_>, from: Option<&str>) -> Result<()> {
        let Self { target, generation, dir, control } = self;
        let SizedFile { name, bytes, blake3 } = file;
        if let Some(from) = from {
            return target.copy_new(from, name, bytes, expected(name, blake3), control);
        }
        let path = dir.join(name);
        let expected = || expected(name, blake3);
        let file = FileToUpload { file: opened(&path)?, path: &path, expected: expected() };
        if BucketFolder::is_small(bytes) {
            return target.upload_new(file, name);
        }
        if target.copies_no(bytes) {
            return target.upload_uncopied(file, name, control);
        }
        let proof = generation.prove(name);
        target.upload(file, &proof, control)?;
        target.copy_new(proof.name(), name, bytes, expected(), control)
    }
}
