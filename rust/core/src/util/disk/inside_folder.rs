//! [`FolderBounds`]: tells whether a file that a list in a folder names lies in that folder.
//!
//! A folder may come from somebody else. A list in it could name any file of this machine, by its path or through a link.

use std::io;
use std::path::{Component, Path, PathBuf};

/// The place that must contain the files that a list in a folder names.
#[derive(Debug)]
pub struct FolderBounds {
    dir: PathBuf,
    /// The folder itself, or the cache of a repository of the hub, whose folders hold links to its blobs.
    root: PathBuf,
}

impl FolderBounds {
    /// The bounds of the folder `dir`.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let real = dir.canonicalize()?;
        let snapshots = real.ancestors().find(|folder| folder.ends_with("snapshots"));
        let cache = snapshots.and_then(Path::parent).filter(|cache| cache.join("blobs").is_dir());
        let root = cache.map_or(real.clone(), Path::to_owned);
        Ok(Self { dir: dir.to_owned(), root })
    }

    /// The path of the file that is called `name` in the folder; `None` if it lies elsewhere, or a link leads elsewhere. Whether it
    /// is there is not said.
    pub fn path_of(&self, name: &Path) -> Option<PathBuf> {
        let is_name = name.components().all(|part| matches!(part, Component::Normal(_)));
        let path = self.dir.join(name);
        // A file that is not there is an error of its own.
        let leaves = || path.canonicalize().is_ok_and(|real| !real.starts_with(&self.root));
        (is_name && name.file_name().is_some() && !leaves()).then_some(path)
    }
}
