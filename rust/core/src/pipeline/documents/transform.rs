//! [`Transform`]: the caller's functions, which change records before they are read.

use std::fmt;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use fastpack_picture::Size;

use super::custom_objective::DocumentFunction;
use crate::config::Fields;
use crate::error::{Error, Result};
use crate::record::RecordTable;
use crate::source::{Block, RecordChange};

/// Selects the rows of a table to keep. A null counts as false.
pub type RowFilter = Box<dyn Fn(RecordBatch) -> Result<BooleanArray> + Send + Sync>;

/// Changes each row of a table.
pub type Mapping = Box<dyn Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync>;

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
    pub map: Option<Mapping>,
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
        let table = RecordTable::of(&block)?;
        let rows = table.rows();
        if rows.num_rows() == 0 && table.refused().is_empty() {
            return Ok(block);
        }
        let mut changes = vec![RecordChange::Stays; block.records().count()];
        for (number, fault) in table.refused() {
            changes[*number] = RecordChange::Refused(fault.reason, fault.message.clone());
        }
        if rows.num_rows() == 0 {
            return Ok(block.with_changes(changes, Vec::new()));
        }
        let mut bytes = Vec::new();
        let chosen = match &self.filter {
            Some(filter) => chosen(filter(rows.clone())?, rows.num_rows())?,
            None => BooleanArray::from(vec![true; rows.num_rows()]),
        };
        for row in (0..rows.num_rows()).filter(|&row| !chosen.value(row)) {
            changes[table.number(row)] = RecordChange::Goes;
        }
        if let Some(map) = &self.map
            && chosen.true_count() > 0
        {
            let given = filter_record_batch(rows, &chosen)?;
            let mapped = map(given)?;
            if mapped.num_rows() != chosen.true_count() {
                return Err(Error::option(
                    "map",
                    format!(
                        "must return a row for each row that it is given, {} and not {}; `filter` leaves rows out",
                        chosen.true_count(),
                        mapped.num_rows()
                    ),
                ));
            }
            let mapped = table.mapped(&mapped);
            let pictures = self.pictures.as_ref().map(|_| fields);
            for (at, row) in (0..rows.num_rows()).filter(|&row| chosen.value(row)).enumerate() {
                let start = bytes.len();
                changes[table.number(row)] = match mapped.write(row, at, pictures, &mut bytes) {
                    Ok(()) => RecordChange::Becomes(start..bytes.len()),
                    Err(fault) => RecordChange::Refused(fault.reason, fault.message),
                };
            }
        }
        Ok(block.with_changes(changes, bytes))
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
