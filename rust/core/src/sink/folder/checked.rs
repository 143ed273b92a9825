//! The checks of a folder before its files come to their places.

use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::{File, Folder, MANIFEST, Manifest, TokensFile};
use crate::error::{Error, Result};
use crate::sink::folder::{owned, survey};
use crate::util::ordered::ordered;

/// Shards that are read at a time to compare their hashes.
const READERS: NonZeroUsize = NonZeroUsize::new(4).expect("above zero");

impl Folder {
    /// Fails with [`Error::Io`] if a finished shard or the tokens are not as they were written. The next run of the job makes
    /// the shard again.
    pub(super) fn refuse_changed(&self, tokens: Option<&TokensFile>) -> Result<()> {
        let (work, control) = (self.work(), &self.control);
        let Self { elsewhere, adopted, .. } = self;
        let is_here =
            |file: &&File| !elsewhere.contains_key(&file.name) && !adopted.contains(&file.name);
        let here: Vec<&File> = self.files.iter().filter(is_here).collect();
        let mut files = here.into_iter();
        let check = |file: &File| {
            let path = work.join(&file.name);
            let is_whole = owned::is_whole(&path, file.bytes, &file.blake3, control)?;
            if is_whole { Ok(()) } else { Err(changed(path)) }
        };
        ordered(READERS, || Ok(files.next()), || check, Ok)?;
        match tokens {
            Some(tokens) if !survey::has_digest(&self.blocks(), tokens, control)? => {
                Err(changed(self.blocks()))
            }
            _ => Ok(()),
        }
    }

    /// Fails if another file has appeared in the place of a file of `manifest`, before anything is removed.
    pub(super) fn refuse_taken(&self, manifest: &Manifest) -> Result<()> {
        for name in manifest.names().chain([MANIFEST]) {
            let place = self.dir.join(name);
            if !self.owned.contains(name) && place.symlink_metadata().is_ok() {
                let said = "has come to lie there while this ran; move it away, and run again";
                return Err(Error::io(place)(io::Error::new(ErrorKind::AlreadyExists, said)));
            }
        }
        Ok(())
    }
}

/// The error for a file of the work folder that has changed since it was written.
fn changed(path: PathBuf) -> Error {
    let said = "has changed since it was written, and is not published; run again";
    Error::io(path)(io::Error::new(ErrorKind::InvalidData, said))
}
