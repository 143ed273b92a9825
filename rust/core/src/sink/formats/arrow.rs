//! Rows as an Arrow IPC stream, which `datasets.Dataset.from_file` maps into memory.

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow::record_batch::RecordBatch;

use crate::config::Compression;
use crate::sink::shards::disk::DiskWriter;

/// A file of record batches that is being written.
pub(crate) struct ArrowRows(Box<StreamWriter<DiskWriter>>);

impl ArrowRows {
    pub(crate) fn new(
        disk: DiskWriter,
        schema: &SchemaRef,
        compression: Option<Compression>,
    ) -> Result<Self, ArrowError> {
        let codec = match compression {
            Some(Compression::Lz4) => Some(CompressionType::LZ4_FRAME),
            Some(Compression::Zstd) => Some(CompressionType::ZSTD),
            Some(Compression::None | Compression::Snappy) | None => None,
        };
        let options = IpcWriteOptions::default().try_with_compression(codec)?;
        let writer = StreamWriter::try_new_with_options(disk, schema, options)?;
        Ok(Self(Box::new(writer)))
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        if batch.num_rows() == 0 { Ok(()) } else { self.0.write(batch) }
    }

    pub(crate) fn finish(mut self) -> Result<DiskWriter, ArrowError> {
        self.0.finish()?;
        (*self.0).into_inner()
    }
}
