//! [`RemoteFolder`]: a folder of remote storage, whose files are read by their names.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;

use crate::config::StorageOptions;
use crate::error::{Error, Result};
use crate::storage::address::Address;
use crate::storage::fetching::object::{Fetched, Object};
use crate::storage::session::Session;
use crate::util::control::Control;
use crate::util::disk::file_hash::{PART, PartHashes};

/// Parts that are fetched ahead of the one that is written.
const AHEAD: usize = 8;

/// A folder of a bucket, of a web server, of the hub, or of a file system of the caller.
#[derive(Debug)]
pub(crate) struct RemoteFolder {
    session: Session,
    place: FolderPlace,
}

#[derive(Debug)]
enum FolderPlace {
    At(Address),
    /// The name whose files the caller gives.
    Resolved(String),
}

impl RemoteFolder {
    /// Opens the folder at `url`.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for a text that is no URL of a folder, and for options that no client can be made with.
    pub(crate) fn open(
        url: &str,
        options: &StorageOptions,
        cancelled: Arc<AtomicBool>,
    ) -> Result<Self> {
        // Blocks would be kept beside the whole files.
        let options = StorageOptions { block_cache: None, ..options.clone() };
        let is_resolved = options.resolved_files.contains_key(url);
        let session = Session::open(&options, cancelled)?;
        let place = if is_resolved {
            FolderPlace::Resolved(url.to_owned())
        } else {
            FolderPlace::At(session.address(url)?)
        };
        Ok(Self { session, place })
    }

    /// The file `name`; `None` if there is none.
    fn find(&self, name: &str) -> Result<Option<Arc<Object>>> {
        match &self.place {
            FolderPlace::At(folder) => Ok(self.session.find(&folder.inside(name))?.map(Arc::new)),
            FolderPlace::Resolved(url) => {
                let is_it = |file_name: &str| {
                    file_name.strip_suffix(name).is_some_and(|it| it.ends_with('/'))
                };
                let files = self.session.resolved_files(url).unwrap_or_default();
                // A file of this name may lie in a folder below too.
                let found = files
                    .iter()
                    .filter(|file| is_it(&file.name))
                    .min_by_key(|file| file.name.len());
                found.map(|file| self.session.resolved_object(file).map(Arc::new)).transpose()
            }
        }
    }

    /// The URL of the file `name`, without secrets.
    pub(crate) fn name_of(&self, name: &str) -> PathBuf {
        match &self.place {
            FolderPlace::At(folder) => PathBuf::from(folder.inside(name).name),
            FolderPlace::Resolved(url) => {
                PathBuf::from(format!("{}/{name}", url.trim_end_matches('/')))
            }
        }
    }

    /// The bytes of the file `name`; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let Some(object) = self.find(name)? else { return Ok(None) };
        let bytes = object.fetch(0..object.stat().size);
        bytes.map(Some).map_err(Error::io(&**object.name()))
    }

    /// Writes the file `name`, which has this size, to `out`; `hashes` are those of its parts.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if there is no such file, or one with other bytes.
    pub(crate) fn fetch(
        &self,
        name: &str,
        bytes: u64,
        hashes: Option<&PartHashes>,
        out: &mut dyn Write,
        control: &Control,
    ) -> Result<()> {
        let Some(object) = self.find(name)? else {
            let reason = "No such file, which the manifest of the folder lists";
            return Err(Error::io(self.name_of(name))(io::Error::new(
                io::ErrorKind::NotFound,
                reason,
            )));
        };
        let about = || Error::io(&**object.name());
        let size = object.stat().size;
        if size != bytes {
            return Err(about()(other(&format!("has {size} bytes, but {bytes} by the manifest"))));
        }
        let mut ahead: VecDeque<Fetched> = VecDeque::new();
        let (mut next, mut number) = (0, 0);
        while next < size || !ahead.is_empty() {
            control.tick()?;
            while next < size && ahead.len() < AHEAD {
                let range = next..size.min(next + PART);
                next = range.end;
                ahead.push_back(object.begin(range));
            }
            let Some(first) = ahead.pop_front() else { break };
            let part = first.wait().map_err(about())?;
            if hashes.is_some_and(|hashes| !hashes.is_part(number, &part)) {
                let at = number * PART;
                let reason =
                    format!("the bytes from {at} on are others than those of the manifest");
                return Err(about()(other(&reason)));
            }
            out.write_all(&part).map_err(about())?;
            number += 1;
        }
        Ok(())
    }
}

/// The error for a file that is not the one of the manifest.
fn other(reason: &str) -> io::Error {
    let message = format!(
        "{reason}: it has changed since it was written; pack again, and see `fastpack verify`"
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}
