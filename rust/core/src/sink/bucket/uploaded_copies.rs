//! [`UploadedCopies`]: the local copies of uploaded files that may be removed, since nobody has written to them after their
//! manifest.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::sink::file_names::MANIFEST;
use crate::sink::manifest::Manifest;
use crate::util::disk::removal::{Claim, Disk, Evidence, Proof, Stamp, prove};

/// The files of a finished folder of the local disk by their paths, with the sizes that its manifest says. The manifest was written
/// last, so that none of them is newer.
pub(crate) struct UploadedCopies {
    sizes: HashMap<PathBuf, Option<u64>>,
    written: Option<SystemTime>,
}

impl UploadedCopies {
    /// The files of the folder `dir`, the manifest too.
    pub(crate) fn of(dir: &Path, manifest: &Manifest) -> Self {
        let path = dir.join(MANIFEST);
        let written = path.symlink_metadata().and_then(|it| it.modified()).ok();
        let listed = manifest.listed().map(|file| (dir.join(file.name), Some(file.bytes)));
        Self { sizes: listed.chain([(path, None)]).collect(), written }
    }
}

impl UploadedCopies {
    /// The proofs for all of them, that of the manifest first: without it, no run takes the other files for whole.
    pub(crate) fn proofs(&self) -> impl Iterator<Item = Proof<Disk>> {
        let (first, rest): (Vec<_>, Vec<_>) =
            self.sizes.keys().partition(|path| path.ends_with(MANIFEST));
        first.into_iter().chain(rest).filter_map(|path| prove(self, path))
    }
}

impl Evidence<Disk> for UploadedCopies {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let is_as_written = |size: &Option<u64>| {
            let found = path.symlink_metadata().ok().filter(Metadata::is_file)?;
            let is_older = found.modified().ok() <= self.written;
            (size.is_none_or(|size| size == found.len()) && is_older).then(|| Stamp::of(&found))
        };
        self.sizes.get(path).and_then(is_as_written).map_or(Claim::None, Claim::Version)
    }
}
