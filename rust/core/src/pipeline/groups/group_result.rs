//! [`GroupRecord`]: the results of a packed group, to be added up with the others.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::pipeline::documents::shape_recogniser::FileKinds;
use crate::pipeline::rows::run_counts::RunCounts;
use crate::util::wording::{message, set};

/// The counts of a group, as its `report.json` holds them. They can be added, which a report cannot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct GroupRecord {
    /// The counts of its documents and rows; without rows in the step that makes tokens.
    pub(super) counted: RunCounts,
    /// The formats and shapes of its files.
    pub(super) seen: FileKinds,
    /// The conversations that `transformers` rendered, in words.
    pub(super) outside: Option<String>,
    /// The blocks in its tokens.
    pub(super) blocks: u64,
    /// Seconds from beginning to end.
    pub(super) seconds: f64,
}

impl GroupRecord {
    /// The record in the `report.json` of the folder `dir`.
    pub(super) fn read(report: &str, dir: &Path) -> Result<Self> {
        serde_json::from_str(report).map_err(|error| {
            let fault = format!("its record of a group cannot be read ({error}); ");
            Error::output(dir, message![fault, set("exists", "overwrite"), " packs again"])
        })
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings are always JSON")
    }

    /// Adds the record of a later group.
    pub(super) fn merge(&mut self, later: Self) {
        self.counted.merge(later.counted);
        self.seen.merge(later.seen);
        self.outside = self.outside.take().or(later.outside);
        self.blocks += later.blocks;
        self.seconds += later.seconds;
    }
}
