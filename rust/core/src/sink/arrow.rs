//! Rows as an Arrow IPC stream: what `datasets.Dataset.from_file` maps into memory.

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;

use super::shard::Sink;

/// A file of record batches that is being written.
pub(super) struct Rows(Box<StreamWriter<Sink>>);

impl Rows {
    pub(super) fn new(sink: Sink, schema: &SchemaRef) -> Result<Self, ArrowError> {
        StreamWriter::try_new(sink, schema).map(|writer| Self(Box::new(writer)))
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        if batch.num_rows() == 0 { Ok(()) } else { self.0.write(batch) }
    }

    pub(super) fn finish(mut self) -> Result<Sink, ArrowError> {
        self.0.finish()?;
        (*self.0).into_inner()
    }
}
