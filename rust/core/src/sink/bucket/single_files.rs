//! [`BucketFiles`]: brings files of the local disk to a folder of a bucket, one after the other, where there must be none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::job_files::BucketPlace;
use super::lease_guard::LeaseGuard;
use super::local_folder::owner;
use super::run_names::TRIAL;
use super::run_names::{RunNames, end_unfinished_uploads, remove_uploads};
use crate::config::RemoteOutput;
use crate::error::{Error, Result};
use crate::sink::manifest::SizedFile;
use crate::sink::store::coordination_files::HeldLock;
use crate::storage::{BucketFolder, LOCK};
use crate::util::control::Control;
use crate::util::disk::regular::{self, Links};

/// A folder of a bucket that only this call writes to, until this is dropped.
#[derive(Debug)]
pub struct BucketFiles {
    target: Arc<BucketFolder>,
    lease: LeaseGuard,
    generation: RunNames,
    /// The folder of the local disk in which the files are written.
    dir: PathBuf,
}

impl BucketFiles {
    /// Locks the folder of a bucket.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if another process writes there, and [`Error::Output`] if the store cannot keep two writers apart.
    pub fn open(remote: &RemoteOutput, dir: &Path, control: &Control) -> Result<Self> {
        let target = Arc::new(BucketFolder::open(&remote.url, &remote.storage, control.flag())?);
        let generation = RunNames::named(&blake3::hash(remote.url.as_bytes()));
        let lease = target.lock(LOCK, &owner(dir), false, control)?;
        let lease = LeaseGuard::of(&target, lease);
        lease.refuse_unconditional(control)?;
        let copies = target.refuse_unconditional_copy(&generation.prove(TRIAL));
        lease.explained(copies, control)?;
        end_unfinished_uploads(&target);
        Ok(Self { target, lease, generation, dir: dir.to_owned() })
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
        self.lease.check(control)?;
        let path = self.dir.join(name);
        let file = regular::open(&path, Links::Refused).map_err(Error::io(&path))?;
        let bytes = file.metadata().map_err(Error::io(&path))?.len();
        let hash = regular::hash(file, &path, control)?.to_hex();
        let (target, generation, dir) = (&self.target, &self.generation, &*self.dir);
        let place = BucketPlace { target, generation, dir, control };
        let file = SizedFile { name, bytes, blake3: &hash };
        self.lease.explained(place.place(file, None), control)?;
        Ok(self.target.name_of(name))
    }

    /// Removes the uploads that were copied to their places, and gives the folder back.
    pub fn finish(self) -> Result<()> {
        remove_uploads(&self.target)
    }
}
