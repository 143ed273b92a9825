//! [`Shard`]: one file of rows, hashed as it is written.

use std::path::{Path, PathBuf};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::disk::DiskWriter;
use crate::config::{Coding, Format};
use crate::error::{Error, Result};
use crate::sink::formats::{arrow as ipc, jsonl, msgpack, parquet};
use crate::sink::manifest::File;

/// A file of rows that is being written.
pub(crate) struct Shard {
    path: PathBuf,
    rows: ShardRows,
    count: u64,
}

/// A file of rows in one of the formats.
enum ShardRows {
    Arrow(ipc::ArrowRows),
    Jsonl(jsonl::JsonlRows),
    Msgpack(msgpack::MsgpackRows),
    Parquet(parquet::ParquetRows),
}

impl Shard {
    /// Creates the file at `path`.
    pub(crate) fn create(path: PathBuf, coding: Coding, schema: &SchemaRef) -> Result<Self> {
        let file = DiskWriter::create(&path).map_err(Error::io(&path))?;
        let rows = match coding.format {
            Format::Arrow => {
                ipc::ArrowRows::new(file, schema, coding.compression).map(ShardRows::Arrow)
            }
            Format::Jsonl => Ok(ShardRows::Jsonl(jsonl::JsonlRows::new(file))),
            Format::MsgpackArrays => {
                msgpack::MsgpackRows::new(file).map(ShardRows::Msgpack).map_err(ArrowError::from)
            }
            Format::Parquet => {
                parquet::ParquetRows::new(file, schema, coding.compression).map(ShardRows::Parquet)
            }
        };
        let rows = rows.map_err(|error| about(&path, error))?;
        Ok(Self { path, rows, count: 0 })
    }

    /// Appends rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.rows {
            ShardRows::Arrow(rows) => rows.write(batch),
            ShardRows::Jsonl(rows) => rows.write(batch).map_err(ArrowError::from),
            ShardRows::Msgpack(rows) => rows.write(batch).map_err(ArrowError::from),
            ShardRows::Parquet(rows) => rows.write(batch),
        };
        self.count += batch.num_rows() as u64;
        written.map_err(|error| about(&self.path, error))
    }

    /// Writes the rest to the disk, and returns the manifest entry of the file under the name `name`.
    pub(crate) fn close(self, name: String) -> Result<File> {
        let counted = matches!(self.rows, ShardRows::Msgpack(_));
        let file = match self.rows {
            ShardRows::Arrow(rows) => rows.finish(),
            ShardRows::Jsonl(rows) => Ok(rows.finish()),
            ShardRows::Msgpack(rows) => Ok(rows.finish()),
            ShardRows::Parquet(rows) => rows.finish(),
        };
        let file = file.map_err(|error| about(&self.path, error))?;
        let mut file = file.finish().map_err(Error::io(&self.path))?;
        if counted {
            let rows = u32::try_from(self.count).map_err(|_| {
                Error::option(
                    "format.shard_size",
                    "is so large that a file has more than 2^32 rows",
                )
            })?;
            let written = file.overwrite(msgpack::LENGTH.start, &rows.to_be_bytes());
            written.map_err(Error::io(&self.path))?;
        }
        let (bytes, hash) = file.sync().map_err(Error::io(&self.path))?;
        let blake3 = hash.whole.to_hex().to_string();
        Ok(File { name, rows: self.count, bytes, blake3, parts: hash.parts })
    }
}

/// Adds the path of the file to an error.
fn about(path: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) => Error::io(path)(source),
        other => other.into(),
    }
}
