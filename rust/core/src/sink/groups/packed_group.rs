//! [`PackedGroup`]: the record of a packed group.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::sink::file_names::{REPORT, TOKENS};
use crate::sink::folder::{output_survey, own_files};
use crate::sink::manifest::{Manifest, SizedFile};
use crate::util::control::Control;

/// A group that was packed, as its record says, which is written after its files.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedGroup {
    /// The name of its folder.
    #[serde(skip)]
    pub(crate) name: String,
    /// Its folder in the store, or on the local disk.
    #[serde(skip)]
    pub dir: PathBuf,
    /// Its files, and the content of its inputs.
    pub manifest: Manifest,
    /// The content of its `report.json`.
    pub report: String,
    /// The etags that the files got in a bucket, by their names. An object of another etag may have other bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) etags: BTreeMap<String, String>,
}

impl PackedGroup {
    /// The group in the folder `dir` of the local disk.
    pub(crate) fn at(dir: PathBuf, manifest: Manifest, report: String) -> Self {
        Self { name: String::new(), dir, manifest, report, etags: BTreeMap::new() }
    }

    /// The files that are kept in the store. The report is in the record.
    pub(crate) fn kept(&self) -> impl Iterator<Item = SizedFile<'_>> {
        self.manifest.listed().filter(|file| file.name != REPORT)
    }

    /// True if the file `name` got this etag.
    pub(crate) fn has_etag(&self, name: &str, etag: &str) -> bool {
        self.etags.get(name).is_some_and(|known| known == etag)
    }

    /// True if the file at `path` is the one that is called `name` in the group.
    pub(crate) fn is_file(&self, name: &str, path: &Path, control: &Control) -> Result<bool> {
        if let Some(tokens) = self.manifest.tokens.as_ref().filter(|_| name == TOKENS) {
            return output_survey::has_digest(path, tokens, control);
        }
        let listed = self.manifest.listed().find(|file| file.name == name);
        listed.map_or(Ok(false), |file| own_files::is_whole(path, file.bytes, file.blake3, control))
    }
}
