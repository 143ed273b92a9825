//! [`RowEncoding`]: the file format, columns and compression of the output.

use serde::{Deserialize, Serialize};

use crate::config::columns::{BYTES_OF_VALUE, RowColumn};
use crate::config::option_words;
use crate::error::{Error, Result};
use crate::util::wording::{message, set};

/// The columns of a row of [`Format::MsgpackArrays`], before its length.
const ARRAYS: [RowColumn; 3] = [RowColumn::InputIds, RowColumn::Labels, RowColumn::PositionIds];

option_words! {
    /// The file format of the output.
    #[non_exhaustive]
    pub enum Format {
        /// Arrow IPC stream files.
        Arrow = "arrow",
        /// A JSON object a row.
        Jsonl = "jsonl",
        /// One `MessagePack` array with an array a row: ids, labels, positions, length.
        MsgpackArrays = "msgpack_arrays",
        /// Parquet files.
        Parquet = "parquet",
    }
}

impl Format {
    /// Checks that the format can hold these columns: rows of arrays have no names.
    pub(super) fn check_columns(self, columns: &[RowColumn]) -> Result<()> {
        if self == Self::MsgpackArrays && *columns != ARRAYS {
            let reason = message![
                "must be input_ids, labels, position_ids for ",
                set("format", "msgpack_arrays"),
                ", which has no names",
            ];
            return Err(Error::option("columns", reason));
        }
        Ok(())
    }

    /// All formats.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::WORDS.iter().map(|&(_, format)| format)
    }

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Jsonl => "jsonl",
            Self::MsgpackArrays => "msgpack",
            Self::Parquet => "parquet",
        }
    }

    /// The most bytes of a file for 100 bytes of its columns; for JSON, with ids of up to five digits.
    fn bytes_for_100(self) -> u64 {
        match self {
            Self::Arrow | Self::Parquet => 100,
            Self::MsgpackArrays => 125,
            Self::Jsonl => 160,
        }
    }

    /// The compressions that its files may have, besides none.
    pub(crate) fn compressions(self) -> &'static [Compression] {
        match self {
            Self::Arrow => &[Compression::Lz4, Compression::Zstd],
            Self::Jsonl | Self::MsgpackArrays => &[],
            Self::Parquet => &[Compression::Lz4, Compression::Snappy, Compression::Zstd],
        }
    }
}

option_words! {
    /// The compression of the columns of a file.
    pub enum Compression {
        /// None.
        None = "none",
        /// By LZ4.
        Lz4 = "lz4",
        /// By Snappy.
        Snappy = "snappy",
        /// By Zstandard.
        Zstd = "zstd",
    }
}

option_words! {
    /// The columns that a file holds of a row.
    #[derive(Default)]
    pub enum RowLayout {
        /// All columns of the row, as every reader of Arrow takes them.
        #[default]
        Full = "full",
        /// Ids in 16 bits where the vocabulary allows it, the runs of trained tokens, and the lengths of
        /// documents. Readers of fastpack make the other columns from these.
        Compact = "compact",
    }
}

/// The encoding of rows in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowEncoding {
    /// The file format.
    pub format: Format,
    /// The columns that a file holds of a row.
    #[serde(rename = "format.layout", default)]
    pub layout: RowLayout,
    /// The compression of columns; by default Zstandard for Parquet, and none for others.
    #[serde(rename = "format.compression")]
    pub compression: Option<Compression>,
}

impl RowEncoding {
    /// Files without compression.
    pub fn uncompressed(format: Format, layout: RowLayout) -> Self {
        Self { format, layout, compression: None }
    }

    /// An estimate of the bytes of rows of `tokens` tokens with these columns, before compression.
    pub fn bytes_of(self, columns: &[RowColumn], tokens: u64) -> u64 {
        let per_token = match self.layout {
            RowLayout::Full => columns.iter().filter(|column| column.is_per_token()).count() as u64,
            // Only the ids have a value for each token.
            RowLayout::Compact => 1,
        };
        tokens.saturating_mul(BYTES_OF_VALUE * per_token * self.format.bytes_for_100()) / 100
    }
}
