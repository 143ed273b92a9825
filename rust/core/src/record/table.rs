//! [`RecordTable`]: the records of a block as Arrow columns, for the caller's functions, and the changed records as
//! JSON.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;

use super::columns::{ColumnType, column};
use super::read::object;
use super::{row, write};
use crate::source::Block;
use fastpack_template::json::{Json, Map};

/// The records of a block that can be read, as Arrow columns.
#[derive(Debug)]
pub struct RecordTable {
    rows: RecordBatch,
    records: Vec<Arc<Map>>,
    /// The number of each record in the block.
    numbers: Vec<usize>,
}

impl RecordTable {
    /// The records of `block` that are objects.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] for records that exceed the limits of Arrow.
    pub fn of(block: &Block) -> Result<Self, ArrowError> {
        if let Some(rows) = block.table() {
            let numbers: Vec<usize> = (0..rows.num_rows()).collect();
            let records = numbers.iter().map(|&at| Arc::new(row::readable(rows, at, |_| true)));
            return Ok(Self { rows: rows.clone(), records: records.collect(), numbers });
        }
        let read = block.records().enumerate();
        let (numbers, records): (Vec<usize>, Vec<Arc<Map>>) =
            read.filter_map(|(at, record)| Some((at, object(record.raw, |_| true).ok()?))).unzip();
        Ok(Self { rows: columns(&records)?, records, numbers })
    }

    /// The records, a row each.
    pub fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// The number in the block of a row's record.
    pub fn number(&self, row: usize) -> usize {
        self.numbers[row]
    }

    /// Appends to `bytes` the JSON of the record that row `row` was changed into: row `at` of `mapped`.
    ///
    /// An unchanged field keeps the record's own value, since Arrow may not hold all of it: a field that is
    /// absent from one record of many is null there.
    pub fn write(&self, row: usize, mapped: &RecordBatch, at: usize, bytes: &mut Vec<u8>) {
        let mut record = Map::default();
        for (field, column) in mapped.schema_ref().fields().iter().zip(mapped.columns()) {
            // No shape uses a column that JSON cannot hold.
            let Ok(made) = row::value(column, at) else { continue };
            let given = self.rows.column_by_name(field.name());
            let given = given.and_then(|column| row::value(column, row).ok());
            let value = if given.as_ref() == Some(&made) {
                self.records[row].get(field.name().as_str()).cloned()
            } else {
                Some(made)
            };
            if let Some(value) = value {
                record.insert(Arc::from(field.name().as_str()), value);
            }
        }
        write::json(&Json::Map(Arc::new(record)), bytes);
    }
}

/// A column for each field of any record, in the order of first occurrence.
fn columns(records: &[Arc<Map>]) -> Result<RecordBatch, ArrowError> {
    let mut names: Vec<&Arc<str>> = Vec::new();
    for key in records.iter().flat_map(|record| record.keys()) {
        if !names.contains(&key) {
            names.push(key);
        }
    }
    let mut fields = Vec::with_capacity(names.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(names.len());
    for name in names {
        let values: Vec<Option<&Json>> = records.iter().map(|record| record.get(name)).collect();
        let kind = values
            .iter()
            .flatten()
            .fold(ColumnType::Null, |kind, value| kind.and(ColumnType::of(value)));
        let array = column(&kind, &values);
        fields.push(Field::new(&**name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(records.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
}
