//! [`Placed`]: files that were renamed to where they belong, to be taken back unless all of them get there.

use std::fs;
use std::io::Write;
use std::mem;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Files that were renamed to where they belong, each with where it was.
#[derive(Default)]
pub(super) struct Placed(Vec<(PathBuf, PathBuf)>);

impl Placed {
    /// Moves a whole file from `work` to `place`, into a folder that is made if need be.
    pub(super) fn place(&mut self, work: PathBuf, place: PathBuf) -> Result<()> {
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(Error::io(folder))?;
        }
        fs::rename(&work, &place).map_err(Error::io(&place))?;
        self.0.push((work, place));
        Ok(())
    }

    /// Makes what was placed outlive a loss of power, in the output folder `dir` and those inside that it went to.
    pub(super) fn sync(&self, dir: &Path) -> Result<()> {
        let mut folders: Vec<&Path> =
            self.0.iter().filter_map(|(_, place)| place.parent()).collect();
        folders.push(dir);
        folders.sort_unstable();
        folders.dedup();
        folders.into_iter().try_for_each(sync)
    }

    /// All of them are where they belong.
    pub(super) fn keep(&mut self) {
        self.0.clear();
    }

    /// Moves them back: a part of the output is none.
    pub(super) fn take_back(&mut self) {
        for (work, place) in mem::take(&mut self.0) {
            let _ = fs::rename(&place, work);
            remove_folder_of(&place);
        }
    }
}

/// The name in the work folder, which has no folders inside, of what is called `name` in its place.
pub(super) fn flat(name: &str) -> String {
    name.replace('/', "-")
}

/// Removes the folder that `place` was in, unless anything else is.
pub(super) fn remove_folder_of(place: &Path) {
    if let Some(folder) = place.parent() {
        let _ = fs::remove_dir(folder);
    }
}

/// Writes a file, and has the disk keep it.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut file = fs::File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(Error::io(path))
}

/// Makes renames in a folder outlive a loss of power, where the system has such a thing.
pub(super) fn sync(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io(dir))
    } else {
        Ok(())
    }
}
