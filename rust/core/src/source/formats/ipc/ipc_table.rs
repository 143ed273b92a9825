//! [`IpcTable`]: messages to rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{read_dictionary, read_record_batch};
use arrow::ipc::{MessageHeader, Schema};
use fastpack_tokenize::contain;

use super::damage::IpcDamage;
use super::ipc_message::IpcMessage;
use crate::source::formats::row_reader::{ColumnChoice, short_message};

/// The most rows of a batch that takes no memory: any number of rows could be stated.
const ROWS_OF_NOTHING: usize = 1 << 16;

/// The columns of a stream or file.
pub(super) struct IpcTable {
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    /// The chooser of the needed columns, before the first batch.
    columns: Option<ColumnChoice>,
    /// The places of the columns that are read, if not all.
    needed: Option<Vec<usize>>,
}

impl IpcTable {
    /// The columns that a message names.
    pub(super) fn new(message: &IpcMessage) -> Result<Self, IpcDamage> {
        let header = message.header()?;
        let schema = header.header_as_schema().ok_or("the first message names no columns")?;
        Self::of(schema)
    }

    /// The columns of a schema.
    pub(super) fn of(schema: Schema<'_>) -> Result<Self, IpcDamage> {
        if !schema.endianness().equals_to_target_endianness() {
            return Err("its numbers are written in the byte order of another machine".to_owned());
        }
        let schema = decoded(|| try_fb_to_schema(schema))?;
        Ok(Self {
            schema: Arc::new(schema),
            dictionaries: HashMap::new(),
            columns: None,
            needed: None,
        })
    }

    /// The same table, reading only the columns that `columns` selects by the first batch.
    pub(super) fn choosing(self, columns: Option<ColumnChoice>) -> Self {
        Self { columns, ..self }
    }

    /// The same table, reading only the named columns.
    pub(super) fn with_columns(mut self, names: Option<&[String]>) -> Self {
        if let Some(names) = names {
            let fields = self.schema.fields().iter().enumerate();
            let places = fields.filter(|(_, field)| names.contains(field.name()));
            self.needed = Some(places.map(|(at, _)| at).collect());
        }
        self
    }

    /// The columns of the next stream, which must be the same: a file has one shape.
    pub(super) fn followed_by(self, next: &Self) -> Result<Self, IpcDamage> {
        if self.schema.fields() != next.schema.fields() {
            let reason = "a stream of other columns follows; write it to a file of its own";
            return Err(reason.to_owned());
        }
        Ok(Self { dictionaries: HashMap::new(), ..self })
    }

    /// The rows of a message, if it has any.
    pub(super) fn read(&mut self, message: &IpcMessage) -> Result<Option<RecordBatch>, IpcDamage> {
        let header = message.header()?;
        let version = header.version();
        let body = &message.body;
        match header.header_type() {
            MessageHeader::DictionaryBatch => {
                let batch = header.header_as_dictionary_batch().ok_or("a dictionary is missing")?;
                decoded(|| {
                    read_dictionary(body, batch, &self.schema, &mut self.dictionaries, &version)
                })?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let batch = header.header_as_record_batch().ok_or("a batch is missing")?;
                let (schema, needed) = (Arc::clone(&self.schema), self.needed.as_deref());
                let known = &self.dictionaries;
                let batch =
                    decoded(|| read_record_batch(body, batch, schema, known, needed, &version))?;
                if batch.num_rows() > ROWS_OF_NOTHING.max(8 * batch.get_array_memory_size()) {
                    return Err(format!("a batch of {} rows holds nothing", batch.num_rows()));
                }
                if let Some(columns) = self.columns.take() {
                    self.needed = needed_of(&batch, &columns);
                }
                Ok(Some(batch))
            }
            MessageHeader::NONE => Ok(None),
            other => {
                Err(format!("a message is a {}, no rows", other.variant_name().unwrap_or("?")))
            }
        }
    }
}

/// The result of a decoder of the library. A panic becomes an error.
fn decoded<T>(decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, IpcDamage> {
    contain(decode)?.map_err(short_message)
}

/// The places of the needed columns; `None` if all are needed.
fn needed_of(batch: &RecordBatch, columns: &ColumnChoice) -> Option<Vec<usize>> {
    let names = columns(batch)?;
    let fields = batch.schema_ref().fields().iter().enumerate();
    let places: Vec<usize> =
        fields.filter(|(_, field)| names.contains(field.name())).map(|(at, _)| at).collect();
    (places.len() < batch.num_columns()).then_some(places)
}
