//! Rows as `MessagePack`: one map for each row, or one array with an array for each row.

use std::io::{self, Write};

use arrow::record_batch::RecordBatch;
use rmp::encode::{
    ValueWriteError, write_array_len, write_bool, write_f32, write_map_len, write_sint, write_str,
};

use super::cells::{Cell, ColumnNumbers};
use super::disk::Disk;

/// The bytes of the array's length, after its marker at the beginning of the file.
pub(super) const LENGTH: std::ops::Range<u64> = 1..5;

/// The layout of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowForm {
    /// A map from column names to values.
    Map,
    /// The columns in order, and then the length of the first.
    Array,
}

/// A file of rows that is being written.
pub(super) struct MsgpackRows {
    disk: Disk,
    layout: RowForm,
    row: Vec<u8>,
}

impl MsgpackRows {
    /// One map for each row, one after the other.
    pub(super) fn maps(disk: Disk) -> Self {
        Self { disk, layout: RowForm::Map, row: Vec::new() }
    }

    /// One array with an array for each row. Its length at [`LENGTH`] is filled in at the end.
    pub(super) fn arrays(mut disk: Disk) -> io::Result<Self> {
        // The marker of an array with a 32-bit length. The length is filled in at the end.
        disk.write_all(&[0xdd, 0, 0, 0, 0])?;
        Ok(Self { disk, layout: RowForm::Array, row: Vec::new() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let columns: Vec<_> = names.zip(batch.columns().iter().map(ColumnNumbers::of)).collect();
        let count = u32::try_from(columns.len()).expect("rows have a handful of columns");
        for row in 0..batch.num_rows() {
            self.row.clear();
            match self.layout {
                RowForm::Map => _ = write_map_len(&mut self.row, count)?,
                RowForm::Array => _ = write_array_len(&mut self.row, count + 1)?,
            }
            for (name, column) in &columns {
                if self.layout == RowForm::Map {
                    write_str(&mut self.row, name)?;
                }
                append(column.cell(row), &mut self.row)?;
            }
            if self.layout == RowForm::Array {
                let tokens = columns.first().map_or(0, |(_, column)| length(column.cell(row)));
                write_sint(&mut self.row, i64::from(tokens))?;
            }
            self.disk.write_all(&self.row)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Disk {
        self.disk
    }
}

fn append(cell: Cell<'_>, row: &mut Vec<u8>) -> Result<(), ValueWriteError> {
    match cell {
        Cell::Integer(value) => _ = write_sint(row, value)?,
        Cell::Truth(value) => {
            write_bool(row, value).map_err(ValueWriteError::InvalidMarkerWrite)?;
        }
        Cell::Narrow(values) => {
            write_array_len(row, length(cell))?;
            for &value in values {
                write_sint(row, value.into())?;
            }
        }
        Cell::Real(values) => {
            write_array_len(row, length(cell))?;
            for &value in values {
                write_f32(row, value)?;
            }
        }
        Cell::ShortIds(ids) => {
            write_array_len(row, length(cell))?;
            for &id in ids {
                write_sint(row, id.into())?;
            }
        }
        Cell::LongIds(ids) => {
            write_array_len(row, length(cell))?;
            for &id in ids {
                write_sint(row, id.into())?;
            }
        }
        Cell::Wide(values) => {
            write_array_len(row, length(cell))?;
            for &value in values {
                write_sint(row, value)?;
            }
        }
    }
    Ok(())
}

fn length(cell: Cell<'_>) -> u32 {
    let values = match cell {
        Cell::Integer(_) | Cell::Truth(_) => 1,
        Cell::Narrow(values) => values.len(),
        Cell::Real(values) => values.len(),
        Cell::Wide(values) => values.len(),
        Cell::ShortIds(ids) => ids.len(),
        Cell::LongIds(ids) => ids.len(),
    };
    u32::try_from(values).expect("the reach of an Arrow list is 31 bits")
}
