//! [`Transform`]: the caller's functions, which change records before they are read.

use std::fmt;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use fastpack_picture::Size;

use super::custom_objective::DocumentFunction;
use crate::config::Fields;
use crate::error::{Error, Result};
use crate::record::{MappedRows, RecordTable};
use crate::report::ledger::Reason;
use crate::source::{Block, RecordChange};

/// Selects the rows of a table to keep. A null counts as false.
pub type RowFilter = Box<dyn Fn(RecordBatch) -> Result<BooleanArray> + Send + Sync>;

/// Changes each row of a table.
pub type RowMapping = Box<dyn Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync>;

/// Tells which records to keep, by the JSON of each.
pub type RecordFilter = Box<dyn Fn(Vec<Vec<u8>>) -> Result<Vec<bool>> + Send + Sync>;

/// Makes the JSON of the record that takes the place of each, or says why the function's answer is none.
pub type RecordMapping =
    Box<dyn Fn(Vec<Vec<u8>>) -> Result<Vec<std::result::Result<Vec<u8>, String>>> + Send + Sync>;

/// Makes the text of a picture of each size among several of its conversation, or the reason that the processor refuses it.
pub type PictureFunction =
    Box<dyn Fn(&[Size], usize) -> Result<Vec<std::result::Result<String, String>>> + Send + Sync>;

/// The caller's functions. They are called a block at a time: those of records in input order, that of documents in
/// any order.
#[derive(Default)]
pub struct Transform {
    /// Selects records of the files.
    pub filter: Option<RowFilter>,
    /// Changes the selected records.
    pub map: Option<RowMapping>,
    /// The filter of single records, for inputs other than tables: columns of Arrow would change the values of a record.
    pub filter_record: Option<RecordFilter>,
    /// The mapping of single records, for the same inputs.
    pub map_record: Option<RecordMapping>,
    /// Makes the documents of the objective `function`.
    pub objective: Option<DocumentFunction>,
    /// Makes the texts of pictures.
    pub pictures: Option<PictureFunction>,
    /// The identity of the functions, for the identity of a job.
    pub identity: Option<String>,
    /// A warning for each function without an identity. With one, no two runs count as the same job.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Transform {
    /// True if there is no function of records.
    pub(crate) fn is_empty(&self) -> bool {
        self.filter.is_none() && self.map.is_none()
    }

    /// True if the functions have an identity, so that a job with them can be resumed.
    pub(crate) fn is_identified(&self) -> bool {
        self.warnings.is_empty()
    }

    /// The block after the functions. Invalid records stay, for the error that names them. The records have the parts in these
    /// `fields`.
    pub(in crate::pipeline) fn apply(&self, block: Block, fields: &Fields) -> Result<Block> {
        if self.is_empty() {
            return Ok(block);
        }
        let table = RecordTable::of(&block);
        if table.count() == 0 && table.refused().is_empty() {
            return Ok(block);
        }
        let mut changes = vec![RecordChange::Stays; block.records().count()];
        for (number, fault) in table.refused() {
            changes[*number] = RecordChange::Refused(fault.reason, fault.message.clone());
        }
        if table.count() == 0 {
            return Ok(block.with_changes(changes, Vec::new()));
        }
        let chosen = self.chosen(&table)?;
        for row in (0..table.count()).filter(|&row| !chosen.value(row)) {
            changes[table.number(row)] = RecordChange::Goes;
        }
        let mut bytes = Vec::new();
        if chosen.true_count() > 0 {
            let kept: Vec<usize> = (0..table.count()).filter(|&row| chosen.value(row)).collect();
            for (row, change) in self.mapped(&table, &chosen, &kept, fields, &mut bytes)? {
                changes[table.number(row)] = change;
            }
        }
        Ok(block.with_changes(changes, bytes))
    }

    /// The records that `filter` keeps.
    fn chosen(&self, table: &RecordTable) -> Result<BooleanArray> {
        let count = table.count();
        let mask = match (&self.filter_record, &self.filter) {
            (Some(filter), _) if !table.is_of_rows() => {
                filter((0..count).map(|row| table.json(row)).collect())?.into()
            }
            (_, Some(filter)) => filter(table.rows()?)?,
            (_, None) => return Ok(vec![true; count].into()),
        };
        chosen(mask, count)
    }

    /// The changes of `map` to the `kept` records, which are `chosen`.
    fn mapped(
        &self,
        table: &RecordTable,
        chosen: &BooleanArray,
        kept: &[usize],
        fields: &Fields,
        bytes: &mut Vec<u8>,
    ) -> Result<Vec<(usize, RecordChange)>> {
        let of_as_many = |count: usize| {
            (count == kept.len()).then_some(()).ok_or_else(|| {
                Error::option(
                    "map",
                    format!(
                        "must return a row for each row that it is given, {} and not {count}; `filter` leaves rows out",
                        kept.len()
                    ),
                )
            })
        };
        if let Some(map) = self.map_record.as_ref().filter(|_| !table.is_of_rows()) {
            let returned = map(kept.iter().map(|&row| table.json(row)).collect())?;
            of_as_many(returned.len())?;
            let changes = kept.iter().zip(returned).map(|(&row, result)| match result {
                Ok(json) => {
                    let start = bytes.len();
                    bytes.extend_from_slice(&json);
                    (row, RecordChange::Becomes(start..bytes.len()))
                }
                Err(message) => (row, RecordChange::Refused(Reason::WrongType, message)),
            });
            return Ok(changes.collect());
        }
        let Some(map) = &self.map else { return Ok(Vec::new()) };
        let rows = table.rows()?;
        let returned = map(filter_record_batch(&rows, chosen)?)?;
        of_as_many(returned.num_rows())?;
        let mapped = MappedRows::of(table, &rows, &returned);
        let pictures = self.pictures.as_ref().map(|_| fields);
        let changes = kept.iter().enumerate().map(|(at, &row)| {
            let start = bytes.len();
            let change = match mapped.write(row, at, pictures, bytes) {
                Ok(()) => RecordChange::Becomes(start..bytes.len()),
                Err(fault) => RecordChange::Refused(fault.reason, fault.message),
            };
            (row, change)
        });
        Ok(changes.collect())
    }
}

/// The mask without nulls, if it has `rows` rows.
fn chosen(mask: BooleanArray, rows: usize) -> Result<BooleanArray> {
    if mask.len() != rows {
        let reason = format!(
            "must return a boolean for each row that it is given, {rows} and not {}",
            mask.len()
        );
        return Err(Error::option("filter", reason));
    }
    Ok(if mask.null_count() == 0 { mask } else { arrow::compute::prep_null_mask_filter(&mask) })
}
