//! [`FactIndex`]: facts about large files, kept in a folder for the next run.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::found::SourceFile;
use crate::error::Result;
use crate::util::disk::regular::Links;
use crate::util::disk::sealed;
use crate::util::disk::sealed::Sealed;

/// Digits of the hash in the name of a kept file.
const DIGITS: usize = 32;

/// The least bytes of a file with kept facts: a smaller one is read as soon as its facts.
const LEAST: u64 = 1 << 20;

/// Facts about files that take time to find, kept in a folder if there is one. They are found again for a file of another
/// path, size, time or etag.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FactIndex<'a>(pub(crate) Option<&'a Path>);

/// The content of one file of the folder.
#[derive(Serialize, Deserialize)]
struct IndexEntry<T> {
    found: T,
}

impl FactIndex<'_> {
    /// The value of `fact` for a file: from the folder, or by `find`.
    pub(crate) fn kept<T: Serialize + DeserializeOwned>(
        self,
        file: &SourceFile,
        fact: &impl Serialize,
        find: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let is_kept = file.is_identified() && file.size >= LEAST;
        let Some(dir) = self.0.filter(|_| is_kept) else { return find() };
        let identity = (file.path.to_string_lossy(), file.size, file.modified, &file.etag);
        let all = (env!("CARGO_PKG_VERSION"), identity, file.format.to_string(), fact);
        let all = serde_json::to_vec(&all).expect("texts and numbers");
        let hash = blake3::hash(&all).to_hex();
        let path = dir.join(format!("places-{}.json", &hash[..DIGITS]));
        // One that is not whole, or of another version, is made again.
        if let Ok(Sealed::Whole(text)) = sealed::read(&path, Links::Refused)
            && let Ok(kept) = serde_json::from_slice::<IndexEntry<T>>(&text)
        {
            return Ok(kept.found);
        }
        let kept = IndexEntry { found: find()? };
        sealed::keep(&path, &kept)?;
        Ok(kept.found)
    }
}
