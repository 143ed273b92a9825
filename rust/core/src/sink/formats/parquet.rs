//! Rows as Parquet, read by `pyarrow`, `polars` and `datasets.load_dataset` a row group at a time.

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::cells::ColumnNumbers;
use crate::config::Compression;
use crate::sink::shards::disk::DiskWriter;

/// Bytes of column data of a row group. A reader needs at least this memory, and a stream starts once it has
/// one.
const ROW_GROUP: u64 = 16 << 20;

/// A file of row groups that is being written.
pub(crate) struct ParquetRows {
    writer: Box<ArrowWriter<DiskWriter>>,
    /// Bytes of column data in the current row group.
    bytes: u64,
}

impl ParquetRows {
    pub(crate) fn new(
        disk: DiskWriter,
        schema: &SchemaRef,
        compression: Option<Compression>,
    ) -> Result<Self, ArrowError> {
        let codec = match compression {
            Some(Compression::None) => Codec::UNCOMPRESSED,
            Some(Compression::Snappy) => Codec::SNAPPY,
            Some(Compression::Lz4) => Codec::LZ4_RAW,
            Some(Compression::Zstd) | None => Codec::ZSTD(ZstdLevel::default()),
        };
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_max_row_group_row_count(None)
            .set_created_by(format!("fastpack {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = ArrowWriter::try_new(disk, schema.clone(), Some(properties))?;
        Ok(Self { writer: Box::new(writer), bytes: 0 })
    }

    /// Appends rows; a row group ends with the first row that makes it large enough.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let columns: Vec<ColumnNumbers<'_>> =
            batch.columns().iter().map(ColumnNumbers::of).collect();
        let mut start = 0;
        for row in 0..batch.num_rows() {
            self.bytes += columns.iter().map(|column| column.bytes(row)).sum::<u64>();
            if self.bytes >= ROW_GROUP {
                self.append(&batch.slice(start, row + 1 - start))?;
                self.writer.flush().map_err(unwrapped)?;
                (self.bytes, start) = (0, row + 1);
            }
        }
        self.append(&batch.slice(start, batch.num_rows() - start))
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        if batch.num_rows() == 0 { Ok(()) } else { self.writer.write(batch).map_err(unwrapped) }
    }

    pub(crate) fn finish(self) -> Result<DiskWriter, ArrowError> {
        self.writer.into_inner().map_err(unwrapped)
    }
}

/// The I/O error inside a Parquet error, if there is one.
fn unwrapped(error: ParquetError) -> ArrowError {
    match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => ArrowError::from(*error),
            Err(error) => ArrowError::ParquetError(error.to_string()),
        },
        other => other.into(),
    }
}
