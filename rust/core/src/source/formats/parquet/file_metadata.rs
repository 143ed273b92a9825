//! [`metadata_of`]: the checked metadata of a Parquet file, or its damage.

use std::sync::Arc;

use arrow::datatypes::Schema;
use fastpack_tokenize::contain;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, RowGroupMetaData};

use super::bounded_pages::BoundedPages;
use crate::error;
use crate::error::Error;
use crate::source::discovery::found::SourceFile;
use crate::source::formats::json_columns;
use crate::source::formats::row_reader::short_message;

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
pub(super) fn metadata_of(
    source: &SourceFile,
) -> error::Result<std::result::Result<(BoundedPages, ArrowReaderMetadata), String>> {
    let file = source.location.open_parts().map_err(Error::io(&*source.path))?;
    let mut file = BoundedPages::new(file, source.size);
    Ok(decoded(|| {
        let metadata = load(&mut file)?;
        Ok((file, metadata))
    }))
}

/// The checked metadata of a file, with the mark of JSON at its columns of that type.
pub(super) fn load(file: &mut BoundedPages) -> Result<ArrowReaderMetadata> {
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

/// The result of a decoder of the library. A panic becomes an error.
pub(super) fn decoded<T>(decode: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    contain(decode)?.map_err(short_message)
}
