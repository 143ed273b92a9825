//! [`MappedRows`]: the rows that `map` made of some records. A field that it did not change keeps the record's own value.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::FieldRef;

use super::row;
use super::table::RecordTable;
use crate::config::Fields;
use crate::record::parsing::fault::Fault;
use crate::record::parsing::write;
use crate::report::ledger::Reason;
use crate::source::formats::json_columns::returned;
use fastpack_template::json::{Json, Map};

/// The rows that `map` made of some records of a table.
#[derive(Debug)]
pub struct MappedRows<'t> {
    before: &'t RecordBatch,
    records: &'t [Arc<Map>],
    rows: &'t RecordBatch,
    fields: Vec<FieldRef>,
}

impl<'t> MappedRows<'t> {
    /// The rows that `map` made of some of these records, which were the rows `before`.
    pub fn of(table: &'t RecordTable, before: &'t RecordBatch, rows: &'t RecordBatch) -> Self {
        let schema = before.schema_ref();
        let fields = rows.schema_ref().fields().iter().map(|field| {
            let known = schema.column_with_name(field.name());
            known.map_or_else(|| Arc::clone(field), |(_, known)| returned(known, field))
        });
        Self { before, records: table.records(), rows, fields: fields.collect() }
    }

    /// Appends to `bytes` the JSON of the record that row `row` was changed into: row `at` of the mapped ones.
    ///
    /// An unchanged field keeps the record's own value, since Arrow may not hold all of it: a field that is
    /// absent from one record of many is null there.
    ///
    /// # Errors
    ///
    /// The fault of a value of type JSON that is none; of bytes in one of the `pictures`, the columns of pictures that are read.
    pub fn write(
        &self,
        row: usize,
        at: usize,
        pictures: Option<&Fields>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let Self { before, records, .. } = *self;
        let mut record = Map::default();
        for (field, column) in self.fields.iter().zip(self.rows.columns()) {
            let old = before.schema_ref().column_with_name(field.name()).map(|(number, known)| {
                row::value(known, before.column(number), row)
                    .map_err(|fault| row::named(known, &fault))
            });
            let new = row::value(field, column, at).map_err(|fault| row::named(field, &fault));
            let (old, new) = match (old.transpose(), new) {
                (_, Err(_)) if pictures.is_some_and(|it| it.names_pictures(field.name())) => {
                    let message = format!(
                        "`{}` holds bytes of pictures, which `map` cannot pass on; keep paths in it",
                        field.name()
                    );
                    return Err(Fault::new(Reason::Picture, message));
                }
                // No shape uses a column that JSON cannot hold.
                (_, Err(fault)) if is_no_json(&fault) => continue,
                (Err(fault), Ok(new)) if is_no_json(&fault) => (None, new),
                (Err(fault), _) | (_, Err(fault)) => return Err(fault),
                (Ok(old), Ok(new)) => (old, new),
            };
            let value = if old.as_ref() == Some(&new) {
                records[row].get(field.name().as_str()).cloned()
            } else {
                Some(new)
            };
            if let Some(value) = value {
                record.insert(Arc::from(field.name().as_str()), value);
            }
        }
        write::json(&Json::Map(Arc::new(record)), bytes);
        Ok(())
    }
}

/// True if a value is of a type that JSON has not, such as bytes.
fn is_no_json(fault: &Fault) -> bool {
    matches!(fault.reason, Reason::WrongType | Reason::InvalidUtf8)
}
