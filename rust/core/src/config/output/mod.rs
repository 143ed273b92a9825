//! [`Output`]: the output folder, and its options.

pub(super) mod appending;
pub(super) mod file_format;
pub(super) mod groups;

use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    Compression, Format, RemoteOutput, RowColumn, RowEncoding, RowLayout, RowOptions,
    StartingGroups, Validation,
};
use crate::error::{Error, Result};
use crate::util::wording::{Message, message, set};

/// The output folder of `pack_dir`, and its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Output {
    /// The folder.
    #[serde(skip)]
    pub dir: PathBuf,
    /// The encoding of rows.
    #[serde(flatten)]
    pub coding: RowEncoding,
    /// True if each input has an output of its own, with the name of the input.
    #[serde(rename = "format.per_file")]
    pub per_file: bool,
    /// True if the folder is arranged as `datasets.load_from_disk` maps it.
    #[serde(rename = "format.hf_layout")]
    pub hf_layout: bool,
    /// The documents that are set aside for validation, if any.
    pub validation: Option<Validation>,
    /// A shard is closed once it holds this many bytes of column data.
    #[serde(rename = "format.shard_size")]
    pub shard_bytes: u64,
    /// True if the tokens stay in the folder, for a later repack.
    pub keep_tokens: bool,
    /// Bytes of inputs that make a group, which is packed alone; `None` if all inputs are packed together.
    #[serde(rename = "groups.size", default, skip_serializing_if = "Option::is_none")]
    pub group_bytes: Option<NonZeroU64>,
    /// The groups that this call begins with, if it is one of several; without it, there is one call.
    #[serde(skip)]
    pub turn: Option<StartingGroups>,
    /// True if earlier output of fastpack in the folder may be replaced, of any job.
    #[serde(skip)]
    pub overwrite: bool,
    /// True if other ranks run the same job. The first rank to finish it finishes it for all, with
    /// [`overwrite`](Self::overwrite) too.
    #[serde(skip)]
    pub shared: bool,
    /// True if the records or a function have no identity. No run resumes another then, and none accepts a finished
    /// folder.
    #[serde(skip)]
    pub cannot_resume: bool,
    /// True to wait for another run that writes to the folder, rather than to fail.
    #[serde(skip)]
    pub wait: bool,
    /// Bytes of memory that documents may take. Documents beyond that are read back from the folder.
    #[serde(skip)]
    pub memory: u64,
    /// The arguments of this call as a JSON object, for the manifest. With them the call can be made again.
    #[serde(skip)]
    pub recipe: Option<String>,
    /// The folder in a bucket to which the finished folder is uploaded, if the output is to lie there.
    #[serde(skip)]
    pub remote: Option<RemoteOutput>,
}

impl Output {
    /// The folder of tokens in a cache.
    pub(crate) fn of_tokens(dir: PathBuf) -> Self {
        Self {
            dir,
            coding: RowEncoding::uncompressed(Format::Arrow, RowLayout::Full),
            per_file: false,
            hf_layout: false,
            validation: None,
            shard_bytes: u64::MAX,
            keep_tokens: true,
            group_bytes: None,
            turn: None,
            // Other files may lie beside the tokens, and one of several calls at a time makes the tokens for
            // all.
            overwrite: true,
            shared: true,
            cannot_resume: false,
            wait: true,
            memory: 0,
            recipe: None,
            remote: None,
        }
    }

    /// True if documents keep the hash of their content: splits are made by it, those of kept tokens too.
    pub(crate) fn hashes_content(&self) -> bool {
        self.validation.is_some() || self.keep_tokens
    }

    /// The output with only the options that decide the files: those that serde writes. The others are blanked.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn deciding(&self) -> Self {
        let written = serde_json::to_value(self).and_then(serde_json::from_value);
        written.expect("options that were written can be read")
    }

    /// Checks that the format can hold `columns`, with this compression, and that outputs have one name each.
    pub fn validate(&self, rows: &RowOptions) -> Result<()> {
        let columns = &rows.columns;
        self.validate_groups(columns)?;
        if self.per_file && self.validation.is_some() {
            return Err(Error::option("validation", Self::not_by_file()));
        }
        let RowEncoding { format, compression, layout } = self.coding;
        if layout == RowLayout::Compact {
            if rows.objective.has_row_each() {
                let reason = message![
                    "is \"compact\", which only packed rows have; leave it out with ",
                    set("objective", rows.objective.name().name()),
                ];
                return Err(Error::option("format.layout", reason));
            }
            self.validate_compact()?;
        }
        if self.hf_layout && format != Format::Arrow {
            let reason = message![
                "needs ",
                set("format", "arrow"),
                ", which is what `datasets` maps; leave one of them out",
            ];
            return Err(Error::option("format.hf_layout", reason));
        }
        if self.hf_layout && self.per_file {
            return Err(Error::option("format.hf_layout", Self::not_by_file()));
        }
        let compressed = compression.filter(|it| *it != Compression::None);
        if compressed.is_some_and(|it| !format.compressions().contains(&it)) {
            let reason = "is none that this format has; arrow takes \"lz4\" and \"zstd\", parquet also \"snappy\"";
            return Err(Error::option("format.compression", reason));
        }
        format.check_columns(columns)?;
        Ok(())
    }

    /// Checks that the options go with groups, and that only a job of groups has several calls.
    fn validate_groups(&self, columns: &[RowColumn]) -> Result<()> {
        if self.group_bytes.is_none() {
            if self.turn.is_some() {
                let reason = "is given, but without `groups.size` the job is one group, which one process packs; \
                              give it too, such as \"4GB\"";
                return Err(Error::option("groups.rank", reason));
            }
            return Ok(());
        }
        if self.per_file {
            let reason = message![
                "cannot be given with ",
                set("format.per_file", true),
                ", which packs each input by itself; leave one of them out",
            ];
            return Err(Error::option("groups.size", reason));
        }
        if columns.contains(&RowColumn::Group) {
            let reason = "names `group`, which counts the steps of rows that are packed together; leave it out with \
                          `groups`: row `r` of the files belongs to step `r // order.ranks`";
            return Err(Error::option("columns", reason));
        }
        Ok(())
    }

    /// The fault of an option that needs all files packed together.
    fn not_by_file() -> Message {
        message![
            "cannot be given with ",
            set("format.per_file", true),
            ", which names outputs after their inputs; leave one of them out",
        ]
    }

    /// Checks that the format has 16-bit integers, and that no other library would read the folder as full
    /// rows.
    fn validate_compact(&self) -> Result<()> {
        if !matches!(self.coding.format, Format::Arrow | Format::Parquet) {
            let reason = message![
                "is \"compact\", which needs ",
                set("format", "arrow"),
                " or \"parquet\": the others have no smaller numbers",
            ];
            return Err(Error::option("format.layout", reason));
        }
        if self.hf_layout {
            let reason = message![
                "is \"compact\", whose columns `datasets` does not know; leave ",
                set("format.hf_layout", true),
                " out, and read the folder with fastpack.hf.load",
            ];
            return Err(Error::option("format.layout", reason));
        }
        Ok(())
    }
}
