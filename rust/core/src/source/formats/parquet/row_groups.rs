//! [`groups`] and [`open_group`]: the row groups of a Parquet file, and the rows of one of them.

use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::chosen_columns::{builder, plan};
use super::file_metadata::{decoded, metadata_of};
use crate::error;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::discovery::found::SourceFile;
use crate::util::control::Control;

/// The size of a row group.
pub(crate) struct RowGroupSize {
    pub(crate) rows: u64,
    /// Its decoded bytes.
    pub(crate) bytes: u64,
}

/// The row groups of a file; `None` if it cannot be read, which reading it reports later.
pub(crate) fn groups(source: &SourceFile) -> Option<Vec<RowGroupSize>> {
    let (_, metadata) = metadata_of(source).ok()?.ok()?;
    let groups = metadata.metadata().row_groups().iter().map(|group| RowGroupSize {
        rows: u64::try_from(group.num_rows()).unwrap_or(0),
        bytes: u64::try_from(group.total_byte_size()).unwrap_or(0),
    });
    Some(groups.collect())
}

/// The rows of one row group, of these columns or all. `first_row` is the number of its first row.
pub(crate) fn open_group(
    source: &SourceFile,
    number: usize,
    first_row: u64,
    columns: Option<&[String]>,
) -> error::Result<Box<dyn BlockReader>> {
    let opened = metadata_of(source)?.and_then(|(file, metadata)| {
        decoded(|| {
            plan(&file, &metadata, &[number], columns);
            builder(&file, &metadata, columns)?.with_row_groups(vec![number]).build()
        })
    });
    let group = match opened {
        Ok(reader) => GroupReader { rows: Some(Ok(reader)), next_row: first_row, taken: 0 },
        Err(damage) => GroupReader { rows: Some(Err(damage)), next_row: first_row, taken: 0 },
    };
    Ok(Box::new(group))
}

/// The rows of one row group, or the reason that there are none.
struct GroupReader {
    rows: Option<std::result::Result<ParquetRecordBatchReader, String>>,
    next_row: u64,
    /// The memory of the last batch.
    taken: u64,
}

impl BlockReader for GroupReader {
    fn next_content(&mut self, control: &Control) -> error::Result<Option<BlockContent>> {
        control.tick()?;
        let next = match &mut self.rows {
            None => return Ok(None),
            Some(Err(damage)) => Err(damage.clone()),
            Some(Ok(reader)) => decoded(|| Ok(reader.next().transpose()?)),
        };
        let line = self.next_row;
        match next {
            Ok(None) => Ok(None),
            Ok(Some(batch)) => {
                self.next_row += batch.num_rows() as u64;
                self.taken = batch.get_array_memory_size() as u64;
                Ok(Some(BlockContent::Rows { first_row: line, batch }))
            }
            Err(message) => {
                self.rows = None;
                Ok(Some(BlockContent::Broken { line, reason: Reason::Damaged, message }))
            }
        }
    }

    fn position(&self) -> u64 {
        self.taken
    }
}
