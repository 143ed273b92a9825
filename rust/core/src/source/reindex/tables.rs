//! Writes tables again with small row groups or record batches.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::writer::FileWriter;

use super::part::{PART, damaged};
use crate::error::{Error, Result};
use crate::source::block::{BlockContent, BlockReader};
use crate::source::discovery::found::SourceFile;
use crate::source::formats::{ipc, parquet};
use crate::util::control::Control;

/// Writes the rows of a Parquet file, and returns the number of row groups.
pub(super) fn write_parquet(
    file: &SourceFile,
    path: &Path,
    out: &mut File,
    control: &Control,
) -> Result<u64> {
    let refused = |error: ParquetError| Error::io(path)(io::Error::other(error));
    let (codec, metadata) = parquet::codec_and_metadata(file)?;
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_key_value_metadata(metadata)
        .set_max_row_group_row_count(None)
        .build();
    let mut writer = None;
    let parts = each_part(file, &mut *parquet::open(file, None)?, control, |batches| {
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let out = out.try_clone().map_err(Error::io(path))?;
                let created =
                    ArrowWriter::try_new(out, batches[0].schema(), Some(properties.clone()));
                none.insert(created.map_err(refused)?)
            }
        };
        for batch in batches {
            writer.write(batch).map_err(refused)?;
        }
        writer.flush().map_err(refused)
    })?;
    match writer {
        Some(writer) => writer.close().map(drop).map_err(refused)?,
        None => copy(file, path, out)?,
    }
    Ok(parts)
}

/// Writes the rows of an Arrow file or stream as an Arrow file, and returns the number of record batches.
pub(super) fn write_arrow(
    file: &SourceFile,
    path: &Path,
    out: &mut File,
    control: &Control,
) -> Result<u64> {
    let mut writer: Option<FileWriter<BufWriter<File>>> = None;
    let parts = each_part(file, &mut *ipc::open(file, None, control)?, control, |batches| {
        let batch = plain(&concat_batches(&batches[0].schema(), batches)?)?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let out = BufWriter::new(out.try_clone().map_err(Error::io(path))?);
                none.insert(FileWriter::try_new(out, &batch.schema())?)
            }
        };
        Ok(writer.write(&batch)?)
    })?;
    match &mut writer {
        Some(writer) => writer.finish()?,
        None => copy(file, path, out)?,
    }
    Ok(parts)
}

/// A batch whose columns have no dictionaries: a file has one dictionary for all of its batches.
fn plain(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let of_values = |field: &Arc<arrow::datatypes::Field>| match field.data_type() {
        DataType::Dictionary(_, values) => {
            Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone()))
        }
        _ => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().map(of_values).collect();
    let of_keys = |column: &ArrayRef| match column.as_any_dictionary_opt() {
        Some(dictionary) => take(dictionary.values(), dictionary.keys(), None),
        None => Ok(Arc::clone(column)),
    };
    let columns = batch.columns().iter().map(of_keys).collect::<std::result::Result<_, _>>()?;
    let schema = SchemaRef::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Copies a table without rows.
fn copy(file: &SourceFile, path: &Path, out: &mut File) -> Result<()> {
    let mut bytes = file.location.open().map_err(Error::io(&*file.path))?;
    io::copy(&mut bytes, out).map(drop).map_err(Error::io(path))
}

/// Hands over the rows of a table in parts of about [`PART`] bytes, and returns their number.
fn each_part(
    file: &SourceFile,
    rows: &mut dyn BlockReader,
    control: &Control,
    mut take: impl FnMut(&[RecordBatch]) -> Result<()>,
) -> Result<u64> {
    let mut part: Vec<RecordBatch> = Vec::new();
    let (mut bytes, mut parts) = (0, 0);
    while let Some(content) = rows.next_content(control)? {
        let batch = match content {
            BlockContent::Rows { batch, .. } => batch,
            BlockContent::Broken { line, reason, message }
            | BlockContent::Refused { line, reason, message } => {
                return Err(damaged(file, line, reason, message));
            }
            _ => continue,
        };
        let size = size_of(&batch);
        if bytes + size > PART && !part.is_empty() {
            take(&part)?;
            part.clear();
            (bytes, parts) = (0, parts + 1);
        }
        bytes += size;
        part.push(batch);
    }
    if !part.is_empty() {
        take(&part)?;
        parts += 1;
    }
    Ok(parts)
}

/// The bytes of the rows of a batch.
fn size_of(batch: &RecordBatch) -> usize {
    let sizes = batch.columns().iter();
    sizes.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
