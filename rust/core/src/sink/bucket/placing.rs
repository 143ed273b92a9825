//! [`BucketFiles`]: brings files of the local disk to a folder of a bucket, one after the other, where there must be none.

use std::path::{Path, PathBuf};

use super::place::BucketPlace;
use super::work::{RunNames, end_unfinished_uploads, remove_uploads};
use super::{TRIAL, owner};
use crate::config::RemoteOutput;
use crate::error::{Error, Result};
use crate::storage::{LOCK, Lease, Target};
use crate::util::control::Control;
use crate::util::disk::regular::{self, Links};

/// A folder of a bucket that only this call writes to.
#[derive(Debug)]
pub struct BucketFiles {
    target: Target,
    /// The lock of the folder, until it is given back.
    lease: Option<Lease>,
    generation: RunNames,
    /// The folder of the local disk in which the files are written.
    dir: PathBuf,
}

impl BucketFiles {
    /// Locks the folder of a bucket.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if another process writes there, or the store cannot keep two writers apart.
    pub fn open(remote: &RemoteOutput, dir: &Path, control: &Control) -> Result<Self> {
        let target = Target::open(&remote.url, &remote.storage, control.flag())?;
        let generation = RunNames::named(&blake3::hash(remote.url.as_bytes()));
        let lease = target.lock(LOCK, &owner(dir), false, control)?;
        let files = Self { target, lease: Some(lease), generation, dir: dir.to_owned() };
        files.check(control)?;
        if let Some(lease) = &files.lease {
            files.target.refuse_unconditional(lease)?;
        }
        files.target.refuse_unconditional_copy(&files.generation.prove(TRIAL))?;
        end_unfinished_uploads(&files.target);
        Ok(files)
    }

    /// Fails with [`Error::Output`] if an object has one of these names.
    pub fn refuse_taken(&self, names: &[String]) -> Result<()> {
        let there = self.target.entries()?;
        match there.iter().find(|entry| names.contains(&entry.name)) {
            None => Ok(()),
            Some(entry) => Err(Error::output(
                self.target.name_of(&entry.name),
                "is there already; remove it, or write to another folder",
            )),
        }
    }

    /// Brings the file `name` of the local disk to its place. Returns its URL.
    pub fn place(&self, name: &str, control: &Control) -> Result<PathBuf> {
        self.check(control)?;
        let path = self.dir.join(name);
        let file = regular::open(&path, Links::Refused).map_err(Error::io(&path))?;
        let bytes = file.metadata().map_err(Error::io(&path))?.len();
        let hash = regular::hash(file, &path, control)?.to_hex();
        let (target, generation, dir) = (&self.target, &self.generation, &*self.dir);
        BucketPlace { target, generation, dir, control }.place((name, bytes, &hash), None)?;
        Ok(self.target.name_of(name))
    }

    /// Removes the uploads that were copied to their places, and gives the folder back.
    pub fn finish(self) -> Result<()> {
        remove_uploads(&self.target)
    }

    /// Fails if the lock is lost.
    fn check(&self, control: &Control) -> Result<()> {
        self.lease.as_ref().map_or(Ok(()), |lease| self.target.check(lease, control))
    }
}

impl Drop for BucketFiles {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.target.unlock(lease);
        }
    }
}
