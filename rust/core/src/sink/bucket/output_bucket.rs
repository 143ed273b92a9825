//! [`OutputBucket`]: uploads the finished folder of the local disk, the manifest last.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;

use super::finished_jobs::remove_work;
use super::job_files::BucketPlace;
use super::lease_guard::LeaseGuard;
use super::local_folder::remove_local;
use super::replaced_outputs::ReplacedOutputs;
use super::run_names::{RunNames, stopped_uploads, work};
use super::uploads::{Uploads, with_each};
use crate::config::Output;
use crate::config::identity::Identity;
use crate::error::{Error, Result};
use crate::sink::file_names::MANIFEST;
use crate::sink::manifest::{Manifest, SizedFile};
use crate::sink::shards::folder_layout::FolderLayout;
use crate::sink::store::coordination_files::HeldLock;
use crate::sink::store::job_store::Placement;
use crate::storage::BucketFolder;
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular::Links;

/// An output folder in a bucket that only this run writes to.
#[derive(Debug)]
pub(crate) struct OutputBucket {
    target: Arc<BucketFolder>,
    lease: Arc<LeaseGuard>,
    /// The names of the uploads of this run before they are copied to their places.
    generation: Arc<RunNames>,
    /// The options of the output, with the folder of the local disk in which its files are made.
    local: Output,
    earlier: ReplacedOutputs,
    /// The uploads that begin before the job has finished.
    uploads: Option<Arc<Uploads>>,
    /// The lock of the folder of the local disk.
    _guard: FileLock,
}

impl OutputBucket {
    pub(crate) fn new(
        target: Arc<BucketFolder>,
        lease: LeaseGuard,
        generation: RunNames,
        local: Output,
        earlier: ReplacedOutputs,
        guard: FileLock,
    ) -> Self {
        let (lease, generation, uploads) = (Arc::new(lease), Arc::new(generation), None);
        Self { target, lease, generation, local, earlier, uploads, _guard: guard }
    }

    /// The uploads of shards that are finished before the job is; `None` if they have to wait for its end: they replace an
    /// output that is whole, or get other names.
    pub(crate) fn uploads(&mut self, job: &Arc<Identity>) -> Option<Arc<Uploads>> {
        if self.earlier.is_whole() || FolderLayout::of(&self.local) != FolderLayout::Plain {
            return None;
        }
        // Without a list of them, they are uploaded again.
        let stopped = stopped_uploads(&self.target, job).unwrap_or_default();
        let uploads = Uploads::start(&self.target, &self.lease, &self.generation, stopped);
        let uploads = Arc::new(uploads);
        self.uploads = Some(Arc::clone(&uploads));
        Some(uploads)
    }

    /// Brings the files to their places. Returns the manifest.
    fn bring(
        &mut self,
        uploaded_names: &HashMap<String, String>,
        control: &Control,
    ) -> Result<Manifest> {
        let Self { target, lease, generation, local, earlier, uploads, _guard } = self;
        let uploaded = uploads.take().map(|uploads| uploads.end()).unwrap_or_default();
        let dir = &local.dir;
        let path = dir.join(MANIFEST);
        let manifest = Manifest::read(&path, Links::Refused)?;
        let manifest = manifest.ok_or(ErrorKind::NotFound.into()).map_err(Error::io(&path))?;
        lease.check(control)?;
        earlier.refuse_taken(target, &manifest)?;
        // From here to the last line, the folder holds no whole output. A later run still knows its old content.
        earlier.write_replaced(target)?;
        let there = earlier.remove(target, &manifest)?;
        target.write_own(&work(MANIFEST), manifest.to_text(), &*earlier)?;
        let bucket = BucketPlace { target, generation, dir, control };
        let missing = manifest.listed().filter(|file| !there.contains(file.name));
        // The report and its like come after all rows.
        let metadata_files: HashSet<&str> =
            manifest.metadata_files.iter().map(|file| &*file.name).collect();
        let (last, rows): (Vec<_>, Vec<_>) =
            missing.partition(|file| metadata_files.contains(file.name));
        for missing in [rows, last] {
            let place = |file: SizedFile<'_>| {
                let early = uploaded.get(file.name).filter(|(hash, _)| hash == file.blake3);
                let from = uploaded_names.get(file.name).or_else(|| early.map(|(_, place)| place));
                bucket.place(file, from.map(String::as_str))
            };
            with_each(&**lease, missing, place, control)?;
        }
        lease.check(control)?;
        let text = fs::read(&path).map_err(Error::io(&path))?;
        target.write_new(MANIFEST, text)?;
        remove_work(target)?;
        Ok(manifest)
    }
}

impl Placement for OutputBucket {
    /// Uploads the folder of the local disk, and removes it. The manifest is uploaded last. Files that lie elsewhere in the bucket are
    /// copied there.
    fn finish(
        mut self: Box<Self>,
        uploaded_names: &HashMap<String, String>,
        control: &Control,
    ) -> Result<()> {
        let brought = self.bring(uploaded_names, control);
        let manifest = self.lease.explained(brought, control)?;
        let Self { lease, local, _guard, .. } = *self;
        drop(lease);
        // The output is whole without it. Where it cannot be removed, the next run of the folder does it.
        let _ = remove_local(&local.dir, &manifest);
        Ok(())
    }

    fn give_up(self: Box<Self>, error: &Error) {
        if let Some(uploads) = self.uploads {
            uploads.give_up(error.may_pass());
        }
    }
}
