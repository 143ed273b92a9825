//! Parquet files. [`pages`] checks the lengths in their pages before the library reserves memory for them.

mod pages;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use fastpack_tokenize::contain;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ProjectionMask};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, RowGroupMetaData};

use super::json_columns;
use super::rows::{ColumnChoice, RowReader, block_rows, short_message};
use crate::error::{self, Error};
use crate::report::ledger::Reason;
use crate::source::block::{Content, Reader};
use crate::source::discovery::found::SourceFile;
use crate::util::control::Control;
use pages::Pages;

/// Rows that are read with all columns, to choose the columns of the other rows.
const LOOKED_AT: usize = 100;

/// The rows of a Parquet file. Another file is damaged before its first row.
pub(crate) fn open(
    source: &SourceFile,
    columns: Option<ColumnChoice>,
) -> error::Result<Box<dyn Reader>> {
    let file = source.location.open_parts().map_err(Error::io(&*source.path))?;
    let size = source.size;
    let mut rows = 0;
    let mut file = Some((Pages::new(file, size), columns));
    let mut opened: Option<Batches> = None;
    let reader = RowReader::start(&source.path, move || {
        if let Some((file, columns)) = file.take() {
            match decoded(|| Batches::of(file, columns)) {
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

/// The size of a row group.
pub(crate) struct Group {
    pub(crate) rows: u64,
    /// Its decoded bytes.
    pub(crate) bytes: u64,
}

/// The row groups of a file; `None` if it cannot be read, which reading it reports later.
pub(crate) fn groups(source: &SourceFile) -> Option<Vec<Group>> {
    let (_, metadata) = metadata_of(source).ok()?.ok()?;
    let groups = metadata.metadata().row_groups().iter().map(|group| Group {
        rows: u64::try_from(group.num_rows()).unwrap_or(0),
        bytes: u64::try_from(group.total_byte_size()).unwrap_or(0),
    });
    Some(groups.collect())
}

/// The compression of a file's columns, and its metadata without the schema. Those of a file that cannot be read are
/// none: reading it reports why.
pub(crate) fn codec_and_metadata(
    source: &SourceFile,
) -> error::Result<(Compression, Option<Vec<KeyValue>>)> {
    let Ok((_, metadata)) = metadata_of(source)? else {
        return Ok((Compression::UNCOMPRESSED, None));
    };
    let metadata = metadata.metadata();
    let columns = metadata.row_groups().first().map(RowGroupMetaData::columns);
    let codec = columns.and_then(|columns| columns.first()).map(ColumnChunkMetaData::compression);
    let values = metadata.file_metadata().key_value_metadata().cloned();
    let values = values
        .map(|values| values.into_iter().filter(|it| it.key != ARROW_SCHEMA_META_KEY).collect());
    Ok((codec.unwrap_or(Compression::UNCOMPRESSED), values))
}

/// The file and its checked metadata, or the damage.
fn metadata_of(
    source: &SourceFile,
) -> error::Result<std::result::Result<(Pages, ArrowReaderMetadata), String>> {
    let file = source.location.open_parts().map_err(Error::io(&*source.path))?;
    let mut file = Pages::new(file, source.size);
    Ok(decoded(|| {
        let metadata = load(&mut file)?;
        Ok((file, metadata))
    }))
}

/// The checked metadata of a file, with the mark of JSON at its columns of that type.
fn load(file: &mut Pages) -> Result<ArrowReaderMetadata> {
    let metadata = ArrowReaderMetadata::load(&*file, ArrowReaderOptions::default())?;
    file.check(metadata.metadata())?;
    let schema = metadata.schema();
    let Some(fields) = json_columns::of_parquet(schema.fields(), metadata.parquet_schema()) else {
        return Ok(metadata);
    };
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::default().with_schema(schema);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
}

/// The rows of one row group, of these columns or all. `first_row` is the number of its first row.
pub(crate) fn open_group(
    source: &SourceFile,
    number: usize,
    first_row: u64,
    columns: Option<&[String]>,
) -> error::Result<Box<dyn Reader>> {
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

impl Reader for GroupReader {
    fn next_content(&mut self, control: &Control) -> error::Result<Option<Content>> {
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
                Ok(Some(Content::Rows { first_row: line, batch }))
            }
            Err(message) => {
                self.rows = None;
                Ok(Some(Content::Broken { line, reason: Reason::Damaged, message }))
            }
        }
    }

    fn position(&self) -> u64 {
        self.taken
    }
}

/// The result of a decoder of the library. A panic becomes an error.
fn decoded<T>(decode: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    contain(decode)?.map_err(short_message)
}

/// The batches of a file: some rows of all columns, then all other rows of the needed columns.
struct Batches {
    file: Pages,
    metadata: ArrowReaderMetadata,
    columns: Option<ColumnChoice>,
    /// Rows in the file.
    rows: u64,
    reader: ParquetRecordBatchReader,
}

impl Batches {
    fn of(mut file: Pages, columns: Option<ColumnChoice>) -> Result<Self> {
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

/// Says that these columns of row groups will be read, or all if `None`.
fn plan(
    file: &Pages,
    metadata: &ArrowReaderMetadata,
    groups: &[usize],
    columns: Option<&[String]>,
) {
    file.plan(metadata.metadata(), groups, |part| is_needed(part, columns));
}

fn all_groups(metadata: &ArrowReaderMetadata) -> Vec<usize> {
    (0..metadata.metadata().num_row_groups()).collect()
}

/// True if a column chunk belongs to one of these columns.
fn is_needed(part: &ColumnChunkMetaData, columns: Option<&[String]>) -> bool {
    let root = part.column_path().parts().first();
    columns.is_none_or(|columns| root.is_some_and(|root| columns.contains(root)))
}

/// A reader of these columns, or of all if `None`, in batches of the size of a block.
fn builder(
    file: &Pages,
    metadata: &ArrowReaderMetadata,
    columns: Option<&[String]>,
) -> Result<ParquetRecordBatchReaderBuilder<Pages>> {
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
