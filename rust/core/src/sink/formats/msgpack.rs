//! Rows as `MessagePack`: one array with an array for each row.

use std::io::{self, Write};

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use arrow::record_batch::RecordBatch;
use rmp::encode::{write_array_len, write_sint};

use crate::sink::shards::disk::DiskWriter;

/// The bytes of the array's length, after its marker at the beginning of the file.
pub(crate) const LENGTH: std::ops::Range<u64> = 1..5;

/// A file of rows that is being written.
pub(crate) struct MsgpackRows {
    disk: DiskWriter,
    row: Vec<u8>,
}

impl MsgpackRows {
    /// Begins the array of rows. Its length at [`LENGTH`] is filled in at the end.
    pub(crate) fn new(mut disk: DiskWriter) -> io::Result<Self> {
        // The marker of an array with a 32-bit length.
        disk.write_all(&[0xdd, 0, 0, 0, 0])?;
        Ok(Self { disk, row: Vec::new() })
    }

    /// Appends rows of lists of 32-bit numbers: the columns in their order, and then the length of the first.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let count = u32::try_from(batch.num_columns()).expect("rows have a handful of columns");
        for row in 0..batch.num_rows() {
            self.row.clear();
            write_array_len(&mut self.row, count + 1)?;
            let mut tokens = None;
            for column in batch.columns() {
                let values = column.as_list::<i32>().value(row);
                let values = values.as_primitive::<Int32Type>().values();
                let length = u32::try_from(values.len()).expect("the reach of an Arrow list");
                write_array_len(&mut self.row, length)?;
                for &value in values {
                    write_sint(&mut self.row, value.into())?;
                }
                tokens.get_or_insert(length);
            }
            write_sint(&mut self.row, tokens.unwrap_or(0).into())?;
            self.disk.write_all(&self.row)?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> DiskWriter {
        self.disk
    }
}
