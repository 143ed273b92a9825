//! [`RecordTable`]: the records of a block as Arrow columns, for the caller's functions, and the changed records as
//! JSON.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;

use super::columns::{ColumnType, column};
use super::row;
use crate::record::parsing::fault::Fault;
use crate::record::parsing::write;
use crate::record::read::object;
use crate::report::ledger::Reason;
use crate::source::Block;
use fastpack_template::json::{Json, Map};

/// The records of a block that can be read, as Arrow columns or one by one.
#[derive(Debug)]
pub struct RecordTable {
    /// The rows, if the block is a table.
    batch: Option<RecordBatch>,
    records: Vec<Arc<Map>>,
    /// The number of each record in the block.
    numbers: Vec<usize>,
    /// The records with halves of surrogate pairs, which no column can hold: the number and the fault of each.
    refused: Vec<(usize, Fault)>,
}

impl RecordTable {
    /// The records of `block` that are objects.
    pub fn of(block: &Block) -> Self {
        if let Some(rows) = block.table() {
            let numbers: Vec<usize> = (0..rows.num_rows()).collect();
            let records = numbers.iter().map(|&at| Arc::new(row::plain(rows, at)));
            let (records, batch) = (records.collect(), Some(rows.clone()));
            return Self { batch, records, numbers, refused: Vec::new() };
        }
        let (mut numbers, mut records, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (at, record) in block.records().enumerate() {
            match object(record.raw, |_| true) {
                Ok(record) => {
                    numbers.push(at);
                    records.push(record);
                }
                Err(fault) if fault.reason == Reason::LoneSurrogate => refused.push((at, fault)),
                Err(_) => {}
            }
        }
        Self { batch: None, records, numbers, refused }
    }

    /// The numbers and faults of records that no function can be given and that could be read without one.
    pub fn refused(&self) -> &[(usize, Fault)] {
        &self.refused
    }

    /// True if the records are rows of a table, whose types JSON may lack.
    pub fn is_of_rows(&self) -> bool {
        self.batch.is_some()
    }

    /// The number of records.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// The records, a row each.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] for records that exceed the limits of Arrow.
    pub fn rows(&self) -> Result<RecordBatch, ArrowError> {
        self.batch.as_ref().map_or_else(|| columns(&self.records), |rows| Ok(rows.clone()))
    }

    /// The JSON of a record.
    pub fn json(&self, row: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        write::json(&Json::Map(Arc::clone(&self.records[row])), &mut bytes);
        bytes
    }

    /// The number in the block of a row's record.
    pub fn number(&self, row: usize) -> usize {
        self.numbers[row]
    }

    /// The records that can be read, one by one.
    pub(super) fn records(&self) -> &[Arc<Map>] {
        &self.records
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
