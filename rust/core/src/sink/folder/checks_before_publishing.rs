//! The checks of a folder before its files come to their places.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blake3::Hash;

use super::output_folder::OutputFolder;
use crate::error::{Error, Result};
use crate::sink::file_names::MANIFEST;
use crate::sink::folder::{output_survey, own_files};
use crate::sink::manifest::{Manifest, TokensFile, WrittenShard};
use crate::util::control::Control;
use crate::util::disk::file_hash::{PART, PartHashes, hasher_of_part};
use crate::util::disk::regular::{self, Links};
use crate::util::threads_in_order::ordered;

/// The least number of threads that read shards to compare their hashes: they wait for the disk too.
const READERS: NonZeroUsize = NonZeroUsize::new(4).expect("above zero");

impl OutputFolder {
    /// Fails with [`Error::Io`] if a finished shard or the tokens are not as they were written. The next run of the job makes
    /// the shard again.
    pub(super) fn refuse_changed(&self, tokens: Option<&TokensFile>) -> Result<()> {
        let (work, control) = (self.work(), &self.control);
        let Self { uploaded_names, adopted, .. } = self;
        let is_here = |file: &&WrittenShard| {
            !uploaded_names.contains_key(&file.name) && !adopted.contains(&file.name)
        };
        let here: Vec<&WrittenShard> = self.files.iter().filter(is_here).collect();
        let mut parts = here.into_iter().flat_map(|file| {
            let hashes = Arc::new(FileParts::of(file));
            (0..hashes.count()).map(move |part| (file, Arc::clone(&hashes), part))
        });
        let check = |(file, hashes, part): (&WrittenShard, Arc<FileParts>, u64)| {
            let path = work.join(&file.name);
            let is_whole = match &*hashes {
                FileParts::Whole => own_files::is_whole(&path, file.bytes, &file.blake3, control)?,
                FileParts::Parts { hashes, bytes } => {
                    is_part(&path, hashes, *bytes, part, control)?
                }
            };
            if is_whole { Ok(()) } else { Err(changed(path)) }
        };
        let threads = self.threads.number().max(READERS);
        ordered(threads, || Ok(parts.next()), || check, Ok)?;
        match tokens {
            Some(tokens) if !output_survey::has_digest(&self.blocks(), tokens, control)? => {
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
                let reason = "has come to lie there while this ran; move it away, and run again";
                return Err(Error::io(place)(io::Error::new(ErrorKind::AlreadyExists, reason)));
            }
        }
        Ok(())
    }
}

/// The hashes with which a file is compared: that of the whole, or those of its parts.
enum FileParts {
    Whole,
    Parts { hashes: PartHashes, bytes: u64 },
}

impl FileParts {
    fn of(file: &WrittenShard) -> Self {
        let whole = Hash::from_hex(&file.blake3).ok().filter(|_| !file.parts.is_empty());
        let hashes = whole.and_then(|whole| PartHashes::parse(whole, &file.parts, file.bytes));
        hashes.map_or(Self::Whole, |hashes| Self::Parts { hashes, bytes: file.bytes })
    }

    fn count(&self) -> u64 {
        match self {
            Self::Whole => 1,
            Self::Parts { bytes, .. } => bytes.div_ceil(PART),
        }
    }
}

/// Compares a part of a file of `bytes` bytes with its hash.
fn is_part(
    path: &Path,
    hashes: &PartHashes,
    bytes: u64,
    part: u64,
    control: &Control,
) -> Result<bool> {
    let mut file = match regular::open(path, Links::Refused) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            return Ok(false);
        }
        Err(error) => return Err(Error::io(path)(error)),
    };
    let start = part * PART;
    let is_as_long = file.metadata().map_err(Error::io(path))?.len() == bytes;
    file.seek(SeekFrom::Start(start)).map_err(Error::io(path))?;
    let mut read = hasher_of_part(part);
    regular::each_piece(file.take(PART.min(bytes - start)), path, control, |piece| {
        read.update(piece);
    })?;
    Ok(is_as_long && hashes.is_hashed_part(part, &read))
}

/// The error for a file of the work folder that has changed since it was written.
fn changed(path: PathBuf) -> Error {
    let reason = "has changed since it was written, and is not published; run again";
    Error::io(path)(io::Error::new(ErrorKind::InvalidData, reason))
}
