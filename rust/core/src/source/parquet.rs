//! Parquet files.

use std::fs::File;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;

use super::SourceFile;
use super::block::Reader;
use super::rows::{RowReader, block_rows};
use crate::error::{Error, Result};

/// The rows of a Parquet file; one that is none is broken before its first row.
pub(super) fn open(source: &SourceFile) -> Result<Box<dyn Reader>> {
    let file = File::open(&source.path).map_err(Error::io(&*source.path))?;
    let size = source.size;
    let mut rows = 0;
    let mut all = 1;
    let mut opened = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| {
        let metadata = builder.metadata();
        let bytes: i64 = metadata.row_groups().iter().map(RowGroupMetaData::total_byte_size).sum();
        all = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0).max(1);
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let batch = block_rows(whole(all), whole(u64::try_from(bytes).unwrap_or(0)));
        builder.with_batch_size(batch).build()
    });
    let reader = RowReader::start(&source.path, move || {
        let reader = match &mut opened {
            Ok(reader) => reader,
            Err(error) => return Some(Err(error.to_string())),
        };
        let batch = reader.next()?;
        Some(batch.map_err(|error| error.to_string()).map(|batch| {
            rows += batch.num_rows() as u64;
            let position = u128::from(size) * u128::from(rows) / u128::from(all);
            (batch, u64::try_from(position).unwrap_or(size))
        }))
    })?;
    Ok(Box::new(reader))
}
