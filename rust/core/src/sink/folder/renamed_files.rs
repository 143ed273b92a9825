//! [`RenamedFiles`]: files that were renamed to their place, to be moved back unless all of them arrive.

use std::fs;
use std::io::{ErrorKind, Write};
use std::mem;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::util::disk::regular;
use crate::util::disk::removal::{Stamp, remove_empty};

/// Files that were renamed to their place.
#[derive(Default)]
pub(crate) struct RenamedFiles {
    /// The old and the new path of each file, and its stamp there.
    files: Vec<(PathBuf, PathBuf, Option<Stamp>)>,
    /// The folders that were made for these files.
    folders: Vec<PathBuf>,
}

impl RenamedFiles {
    /// Moves a whole file from `work` to `name` in the output folder `dir`, where there must be no file.
    /// Creates the folder of the file if needed.
    pub(crate) fn place(&mut self, work: PathBuf, dir: &Path, name: &str) -> Result<()> {
        let place = dir.join(name);
        if let Some((folder, _)) = name.split_once('/') {
            let folder = dir.join(folder);
            match fs::create_dir(&folder) {
                Ok(()) => self.folders.push(folder),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io(folder)(error));
                }
                Err(_) if regular::is_folder(&folder) => {}
                // A link to a folder would lead out of the output folder.
                Err(_) => return Err(Error::io(folder)(ErrorKind::NotADirectory.into())),
            }
        }
        regular::rename(&work, &place).map_err(Error::io(&place))?;
        let stamp = Stamp::at(&place);
        self.files.push((work, place, stamp));
        Ok(())
    }

    /// Syncs the placed files against a loss of power, in the output folder `dir` and the folders inside it.
    pub(crate) fn sync(&self, dir: &Path) -> Result<()> {
        let mut folders: Vec<&Path> =
            self.files.iter().filter_map(|(_, place, _)| place.parent()).collect();
        folders.push(dir);
        folders.sort_unstable();
        folders.dedup();
        folders.into_iter().try_for_each(sync)
    }

    /// Keeps all files in their places.
    pub(crate) fn keep(&mut self) {
        *self = Self::default();
    }

    /// Moves the files back, since a partial output is useless.
    pub(crate) fn move_back(&mut self) {
        let Self { files, folders } = mem::take(self);
        for (work, place, stamp) in files {
            if Stamp::at(&place) == stamp {
                let _ = regular::rename(&place, &work);
            }
        }
        for folder in folders {
            let _ = remove_empty(&folder);
        }
    }
}

/// The name of the file `name` in the work folder, which has no folders inside.
pub(crate) fn flat(name: &str) -> String {
    name.replace('/', "-")
}

/// Removes the folder of `place`, if it is empty.
pub(crate) fn remove_folder_of(place: &Path) {
    if let Some(folder) = place.parent() {
        let _ = remove_empty(folder);
    }
}

/// Writes a new file and syncs it to the disk.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    write_by(path, |file| file.write_all(content.as_ref()))
}

/// Writes a new file by a function, and syncs it to the disk.
pub(crate) fn write_by(
    path: &Path,
    content: impl FnOnce(&mut fs::File) -> std::io::Result<()>,
) -> Result<()> {
    let write = || {
        let mut file = regular::create(path)?;
        content(&mut file)?;
        file.sync_all()
    };
    write().map_err(Error::io(path))
}

/// Syncs a folder, so that renames in it survive a loss of power, where the system supports that.
pub(crate) fn sync(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io(dir))
    } else {
        Ok(())
    }
}
