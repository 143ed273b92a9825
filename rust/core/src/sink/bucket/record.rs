//! [`GroupUpload`]: the record of a packed group in a bucket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::identity::Identity;
use crate::sink::files::REPORT;
use crate::sink::manifest::Manifest;
use crate::storage::ListedObject;
use crate::util::disk::sealed;

/// The record of a packed group, which is written after its files.
#[derive(Serialize, Deserialize)]
pub(crate) struct GroupUpload {
    pub(crate) manifest: Manifest,
    pub(crate) report: String,
    /// The etags that the uploaded files got, by their names. An object of another etag may have other bytes.
    pub(crate) etags: BTreeMap<String, String>,
}

impl GroupUpload {
    /// The record of a group whose files are not uploaded yet.
    pub(crate) fn new(manifest: Manifest, report: String) -> Self {
        Self { manifest, report, etags: BTreeMap::new() }
    }

    /// The record in `text`; `None` for one of another job, or that was changed.
    pub(crate) fn parse(text: &[u8], job: &Identity) -> Option<Self> {
        let record: Option<Self> =
            sealed::is_whole(text).then(|| serde_json::from_slice(text).ok())?;
        record.filter(|it| it.manifest.job.differences(job).is_none())
    }

    /// The names, sizes and hashes of the uploaded files. The report is in the record.
    pub(crate) fn uploaded(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        self.manifest.listed().filter(|(name, ..)| *name != REPORT)
    }

    /// True if an object is the one that was uploaded as the file `name`.
    pub(crate) fn names(&self, name: &str, entry: &ListedObject) -> bool {
        entry.etag().is_some_and(|etag| self.etags.get(name).is_some_and(|known| known == etag))
    }
}
