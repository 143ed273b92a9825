//! [`builder`]: a reader of the needed columns alone.

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::bounded_pages::BoundedPages;
use crate::source::formats::row_reader::block_rows;

/// Says that these columns of row groups will be read, or all if `None`.
pub(super) fn plan(
    file: &BoundedPages,
    metadata: &ArrowReaderMetadata,
    groups: &[usize],
    columns: Option<&[String]>,
) {
    file.plan(metadata.metadata(), groups, |part| is_needed(part, columns));
}

pub(super) fn all_groups(metadata: &ArrowReaderMetadata) -> Vec<usize> {
    (0..metadata.metadata().num_row_groups()).collect()
}

/// True if a column chunk belongs to one of these columns.
fn is_needed(part: &ColumnChunkMetaData, columns: Option<&[String]>) -> bool {
    let root = part.column_path().parts().first();
    columns.is_none_or(|columns| root.is_some_and(|root| columns.contains(root)))
}

/// A reader of these columns, or of all if `None`, in batches of the size of a block.
pub(super) fn builder(
    file: &BoundedPages,
    metadata: &ArrowReaderMetadata,
    columns: Option<&[String]>,
) -> Result<ParquetRecordBatchReaderBuilder<BoundedPages>> {
    let needed = |name: &str| columns.is_none_or(|columns| columns.iter().any(|it| it == name));
    let groups = metadata.metadata().row_groups();
    let parts = groups.iter().flat_map(RowGroupMetaData::columns);
    let bytes = parts
        .filter(|part| is_needed(part, columns))
        .map(ColumnChunkMetaData::uncompressed_size)
        .fold(0_i64, i64::saturating_add);
    let rows = metadata.metadata().file_metadata().num_rows();
    let whole = |number: i64| usize::try_from(number).unwrap_or(0);
    let builder =
        ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone()?, metadata.clone());
    let builder = builder.with_batch_size(block_rows(whole(rows), whole(bytes)));
    let roots = metadata.schema().fields().iter().enumerate();
    let roots = roots.filter(|(_, field)| needed(field.name())).map(|(at, _)| at);
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    Ok(builder.with_projection(mask))
}
