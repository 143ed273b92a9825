//! The formats of shards: [`RowEncoder`] makes bytes of rows on any thread, and [`Envelope`] adds the bytes around them.

mod arrow;
pub(super) mod cells;
mod jsonl;
mod msgpack;
mod parquet;

use std::io;

use ::arrow::buffer::Buffer;
use ::arrow::datatypes::SchemaRef;
use ::arrow::error::ArrowError;
use ::arrow::record_batch::RecordBatch;
use ::parquet::arrow::arrow_writer::ArrowColumnChunk;

use crate::config::{Format, RowEncoding};

pub use jsonl::line_fault;
pub(super) use msgpack::head as msgpack_head;
pub(super) use parquet::RowGroups;

/// Encodes rows of one file. Its output depends on these rows alone.
pub(super) enum RowEncoder {
    Arrow(arrow::ArrowEncoder),
    Jsonl,
    Msgpack,
    Parquet(parquet::ParquetEncoder),
}

/// Encoded rows.
pub(super) enum EncodedRows {
    Bytes(Vec<Buffer>),
    RowGroup(Vec<ArrowColumnChunk>),
}

/// The bytes of a file before, between and after its encoded rows.
pub(super) enum Envelope {
    /// Nothing but an end.
    Plain(Vec<Buffer>),
    Parquet(Box<parquet::ParquetEnvelope>),
}

impl RowEncoder {
    /// The encoder of a file, its envelope, and the bytes that it begins with.
    pub(super) fn new(
        coding: RowEncoding,
        schema: &SchemaRef,
    ) -> Result<(Self, Envelope, Vec<Buffer>), ArrowError> {
        Ok(match coding.format {
            Format::Arrow => {
                let encoder = arrow::ArrowEncoder::new(schema, coding.compression)?;
                let (head, end) = encoder.head_and_end()?;
                (Self::Arrow(encoder), Envelope::Plain(end), head)
            }
            Format::Jsonl => (Self::Jsonl, Envelope::Plain(Vec::new()), Vec::new()),
            Format::MsgpackArrays => {
                let head = vec![Buffer::from_vec(msgpack::head(0).to_vec())];
                (Self::Msgpack, Envelope::Plain(Vec::new()), head)
            }
            Format::Parquet => {
                let (encoder, envelope) = parquet::begin(schema, coding.compression)?;
                (Self::Parquet(encoder), Envelope::Parquet(Box::new(envelope)), Vec::new())
            }
        })
    }

    /// Encodes rows; `stopped` tells that nobody waits for them any more.
    pub(super) fn encode(
        &self,
        rows: &[RecordBatch],
        stopped: &dyn Fn() -> bool,
    ) -> Result<EncodedRows, ArrowError> {
        match self {
            Self::Arrow(encoder) => encoder.encode(rows).map(EncodedRows::Bytes),
            Self::Jsonl => {
                Ok(EncodedRows::Bytes(vec![jsonl::encode(rows).map_err(io::Error::from)?]))
            }
            Self::Msgpack => Ok(EncodedRows::Bytes(vec![msgpack::encode(rows)?])),
            Self::Parquet(encoder) => encoder.encode(rows, stopped).map(EncodedRows::RowGroup),
        }
    }
}

impl EncodedRows {
    /// The bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(buffers) => buffers.iter().map(|buffer| buffer.len() as u64).sum(),
            Self::RowGroup(chunks) => chunks.iter().map(|it| it.close().bytes_written).sum(),
        }
    }
}

impl Envelope {
    /// The bytes of the next encoded rows at their place.
    pub(super) fn place(&mut self, rows: EncodedRows) -> Result<Vec<Buffer>, ArrowError> {
        match (self, rows) {
            (Self::Plain(_), EncodedRows::Bytes(bytes)) => Ok(bytes),
            (Self::Parquet(envelope), EncodedRows::RowGroup(chunks)) => envelope.place(chunks),
            _ => unreachable!("the encoder and the envelope of one file"),
        }
    }

    /// The bytes after all rows.
    pub(super) fn finish(self) -> Result<Vec<Buffer>, ArrowError> {
        match self {
            Self::Plain(end) => Ok(end),
            Self::Parquet(envelope) => envelope.finish(),
        }
    }
}
