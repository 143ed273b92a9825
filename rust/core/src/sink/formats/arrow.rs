//! Rows as an Arrow IPC stream, which `datasets.Dataset.from_file` maps into memory.

use std::sync::{Mutex, PoisonError};

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow::record_batch::RecordBatch;

use crate::config::Compression;

/// Encodes record batches as messages of a stream. Without compression their numbers are not copied.
pub(crate) struct ArrowEncoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
    /// Encoders that no thread uses. Each has given its schema, which begins a stream.
    idle: Mutex<Vec<StreamEncoder>>,
}

impl ArrowEncoder {
    pub(super) fn new(
        schema: &SchemaRef,
        compression: Option<Compression>,
    ) -> Result<Self, ArrowError> {
        let codec = match compression {
            Some(Compression::Lz4) => Some(CompressionType::LZ4_FRAME),
            Some(Compression::Zstd) => Some(CompressionType::ZSTD),
            Some(Compression::None | Compression::Snappy) | None => None,
        };
        let options = IpcWriteOptions::default().try_with_compression(codec)?;
        Ok(Self { schema: schema.clone(), options, idle: Mutex::default() })
    }

    /// The schema, and the end of the stream.
    pub(super) fn head_and_end(&self) -> Result<(Vec<Buffer>, Vec<Buffer>), ArrowError> {
        let end = self.encoder()?.finish()?;
        let mut head = self.stream()?.finish()?;
        head.truncate(head.len() - end.len());
        Ok((head, end))
    }

    pub(super) fn encode(&self, rows: &[RecordBatch]) -> Result<Vec<Buffer>, ArrowError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut encoder = idle.map_or_else(|| self.encoder(), Ok)?;
        let mut buffers = Vec::new();
        for rows in rows {
            buffers.extend(encoder.encode(rows)?);
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
        Ok(buffers)
    }

    fn stream(&self) -> Result<StreamEncoder, ArrowError> {
        StreamEncoder::try_new_with_options(&self.schema, self.options.clone())
    }

    /// An encoder that has given its schema.
    fn encoder(&self) -> Result<StreamEncoder, ArrowError> {
        let mut stream = self.stream()?;
        stream.encode(&RecordBatch::new_empty(self.schema.clone()))?;
        Ok(stream)
    }
}
