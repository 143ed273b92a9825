//! [`open`]: the rows of a Parquet file from its first on.

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader};
use parquet::errors::{ParquetError, Result};

use super::bounded_pages::BoundedPages;
use super::chosen_columns::{all_groups, builder, plan};
use super::file_metadata::{decoded, load};
use crate::error;
use crate::error::Error;
use crate::source::block::BlockReader;
use crate::source::discovery::found::SourceFile;
use crate::source::formats::row_reader::{ColumnChoice, RowReader};

/// Rows that are read with all columns, to choose the columns of the other rows.
const LOOKED_AT: usize = 100;

/// The rows of a Parquet file. Another file is damaged before its first row.
pub(crate) fn open(
    source: &SourceFile,
    columns: Option<ColumnChoice>,
) -> error::Result<Box<dyn BlockReader>> {
    let file = source.location.open_parts().map_err(Error::io(&*source.path))?;
    let size = source.size;
    let mut rows = 0;
    let mut file = Some((BoundedPages::new(file, size), columns));
    let mut opened: Option<ParquetBatches> = None;
    let reader = RowReader::start(&source.path, move || {
        if let Some((file, columns)) = file.take() {
            match decoded(|| ParquetBatches::of(file, columns)) {
                Ok(batches) => opened = Some(batches),
                Err(damage) => return Some(Err(damage)),
            }
        }
        let batches = opened.as_mut()?;
        let all = batches.rows.max(1);
        let batch = decoded(|| batches.next_batch().transpose()).transpose()?;
        Some(batch.map(|batch| {
            rows += batch.num_rows() as u64;
            let position = u128::from(size) * u128::from(rows) / u128::from(all);
            (batch, u64::try_from(position).unwrap_or(size))
        }))
    })?;
    Ok(Box::new(reader))
}

/// The batches of a file: some rows of all columns, then all other rows of the needed columns.
struct ParquetBatches {
    file: BoundedPages,
    metadata: ArrowReaderMetadata,
    columns: Option<ColumnChoice>,
    /// Rows in the file.
    rows: u64,
    reader: ParquetRecordBatchReader,
}

impl ParquetBatches {
    fn of(mut file: BoundedPages, columns: Option<ColumnChoice>) -> Result<Self> {
        let metadata = load(&mut file)?;
        let rows = metadata.metadata().file_metadata().num_rows();
        let rows = u64::try_from(rows).unwrap_or(0);
        // A single column leaves no choice.
        let columns = columns.filter(|_| metadata.schema().fields().len() > 1);
        let builder = builder(&file, &metadata, None)?;
        let reader = if columns.is_some() {
            builder.with_batch_size(LOOKED_AT).with_limit(LOOKED_AT).build()?
        } else {
            plan(&file, &metadata, &all_groups(&metadata), None);
            builder.build()?
        };
        Ok(Self { file, metadata, columns, rows, reader })
    }

    fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.reader.next()?;
        if let (Ok(batch), Some(columns)) = (&batch, self.columns.take()) {
            let needed = columns(batch);
            plan(&self.file, &self.metadata, &all_groups(&self.metadata), needed.as_deref());
            let rest = builder(&self.file, &self.metadata, needed.as_deref())
                .and_then(|builder| builder.with_offset(batch.num_rows()).build());
            match rest {
                Ok(reader) => self.reader = reader,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(batch.map_err(ParquetError::from))
    }
}
