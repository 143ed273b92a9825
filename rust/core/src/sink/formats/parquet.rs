//! Rows as Parquet, read by `pyarrow`, `polars` and `datasets.load_dataset` a row group at a time.

use std::io::{self, Write};
use std::mem;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::cells::ColumnNumbers;
use crate::config::Compression;

/// Bytes of column data of a row group. A reader needs at least this memory, and a stream starts once it has
/// one.
const ROW_GROUP: u64 = 16 << 20;

/// The column of the bytes of pictures, of which no dictionary is made: most are there once.
const PICTURE_BYTES: [&str; 4] = ["images", "list", "item", "bytes"];

/// Encodes row groups.
pub(crate) struct ParquetEncoder {
    schema: SchemaRef,
    writers: ArrowRowGroupWriterFactory,
}

/// The metadata of a file: they tell where its row groups lie.
pub(crate) struct ParquetEnvelope(SerializedFileWriter<PlacedBytes>);

/// The bytes that were placed since they were last taken.
#[derive(Default)]
struct PlacedBytes(Vec<u8>);

impl Write for PlacedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The encoder and the envelope of a file.
pub(super) fn begin(
    schema: &SchemaRef,
    compression: Option<Compression>,
) -> Result<(ParquetEncoder, ParquetEnvelope), ArrowError> {
    let codec = match compression {
        Some(Compression::None) => Codec::UNCOMPRESSED,
        Some(Compression::Snappy) => Codec::SNAPPY,
        Some(Compression::Lz4) => Codec::LZ4_RAW,
        Some(Compression::Zstd) | None => Codec::ZSTD(ZstdLevel::default()),
    };
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_max_row_group_row_count(None)
        .set_column_dictionary_enabled(
            ColumnPath::from(PICTURE_BYTES.map(str::to_owned).to_vec()),
            false,
        )
        .set_created_by(format!("fastpack {}", env!("CARGO_PKG_VERSION")))
        .build();
    let writer = ArrowWriter::try_new(PlacedBytes::default(), schema.clone(), Some(properties))?;
    let (file, writers) = writer.into_serialized_writer()?;
    Ok((ParquetEncoder { schema: schema.clone(), writers }, ParquetEnvelope(file)))
}

impl ParquetEncoder {
    /// Encodes a row group. Pages depend on where a batch ends, so its batches are encoded one by one.
    pub(super) fn encode(
        &self,
        rows: &[RecordBatch],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<ArrowColumnChunk>, ArrowError> {
        let mut columns = self.writers.create_column_writers(0)?;
        for batch in rows.iter().take_while(|_| !stopped()) {
            let mut columns = columns.iter_mut();
            for (field, array) in self.schema.fields().iter().zip(batch.columns()) {
                for leaf in compute_leaves(field, array)? {
                    columns.next().expect("a writer for each leaf").write(&leaf)?;
                }
            }
        }
        Ok(columns.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>()?)
    }
}

impl ParquetEnvelope {
    /// The bytes of a row group at its place.
    pub(super) fn place(
        &mut self,
        chunks: Vec<ArrowColumnChunk>,
    ) -> Result<Vec<Buffer>, ArrowError> {
        let mut group = self.0.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        self.0.flush()?;
        Ok(vec![Buffer::from_vec(mem::take(&mut self.0.inner_mut().0))])
    }

    /// The last bytes.
    pub(super) fn finish(self) -> Result<Vec<Buffer>, ArrowError> {
        Ok(vec![Buffer::from_vec(self.0.into_inner()?.0)])
    }
}

/// Cuts batches into row groups.
#[derive(Default)]
pub(crate) struct RowGroups {
    /// The rows of the current row group, and the bytes of their column data.
    rows: Vec<RecordBatch>,
    bytes: u64,
}

impl RowGroups {
    /// Adds rows, and returns the row groups that are complete: each ends with the first row that makes it large enough.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Vec<Vec<RecordBatch>> {
        let columns: Vec<ColumnNumbers<'_>> =
            batch.columns().iter().map(ColumnNumbers::of).collect();
        let mut groups = Vec::new();
        let mut start = 0;
        for row in 0..batch.num_rows() {
            self.bytes += columns.iter().map(|column| column.bytes(row)).sum::<u64>();
            if self.bytes >= ROW_GROUP {
                self.rows.push(batch.slice(start, row + 1 - start));
                groups.push(mem::take(&mut self.rows));
                (self.bytes, start) = (0, row + 1);
            }
        }
        if start < batch.num_rows() {
            self.rows.push(batch.slice(start, batch.num_rows() - start));
        }
        groups
    }

    /// The remaining rows.
    pub(crate) fn rest(&mut self) -> Vec<RecordBatch> {
        mem::take(&mut self.rows)
    }
}
