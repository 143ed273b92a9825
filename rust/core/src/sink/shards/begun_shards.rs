//! The record, in the work folder, of shards that were begun while earlier ones were not in the list of finished shards.
//!
//! With it, the next run knows the unfinished shards of a killed one as files of the job.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::sink::file_names::{BEGUN, BEGUN_NEW};
use crate::util::disk::regular::{self, Links};
use crate::util::disk::sealed;

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct BegunShards {
    /// The number of the last shard that was begun.
    last: usize,
}

/// Writes to the disk that the shard `number` is begun in the folder `work`. Returns the path of the file, which becomes [`BEGUN`]
/// before any file of that number is there.
pub(crate) fn write(number: usize, work: &Path) -> Result<PathBuf> {
    let new = work.join(BEGUN_NEW);
    let text = sealed::seal(&BegunShards { last: number });
    let written = regular::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(Error::io(&*new))?;
    Ok(new)
}

/// The number of the last shard that was begun in the folder `work`. A record that is not whole names none.
pub(crate) fn last(work: &Path) -> usize {
    let mut text = Vec::new();
    let read = regular::open(&work.join(BEGUN), Links::Refused)
        .and_then(|mut file| file.read_to_end(&mut text));
    let begun = read.ok().filter(|_| sealed::is_whole(&text));
    begun.and_then(|_| serde_json::from_slice(&text).ok()).map_or(0, |BegunShards { last }| last)
}
