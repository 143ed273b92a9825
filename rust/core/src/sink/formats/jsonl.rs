//! Rows as JSON lines: an object for each row, a list of numbers or an integer for each column.

use std::io::{self, Write};

use arrow::record_batch::RecordBatch;

use super::cells::{Cell, ColumnNumbers};
use crate::sink::shards::disk::DiskWriter;

/// A file of lines that is being written.
pub(crate) struct JsonlRows {
    disk: DiskWriter,
    line: Vec<u8>,
}

impl JsonlRows {
    pub(crate) fn new(disk: DiskWriter) -> Self {
        Self { disk, line: Vec::new() }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let columns: Vec<_> = names.zip(batch.columns().iter().map(ColumnNumbers::of)).collect();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (index, (name, column)) in columns.iter().enumerate() {
                self.line.push(if index == 0 { b'{' } else { b',' });
                serde_json::to_writer(&mut self.line, name)?;
                self.line.push(b':');
                match column.cell(row) {
                    Cell::Integer(value) => serde_json::to_writer(&mut self.line, &value)?,
                    Cell::Truth(value) => serde_json::to_writer(&mut self.line, &value)?,
                    Cell::Narrow(values) => serde_json::to_writer(&mut self.line, values)?,
                    Cell::Real(values) => serde_json::to_writer(&mut self.line, values)?,
                    Cell::ShortIds(ids) => serde_json::to_writer(&mut self.line, ids)?,
                    Cell::LongIds(ids) => serde_json::to_writer(&mut self.line, ids)?,
                    Cell::Wide(values) => serde_json::to_writer(&mut self.line, values)?,
                }
            }
            self.line.extend_from_slice(b"}\n");
            self.disk.write_all(&self.line)?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> DiskWriter {
        self.disk
    }
}
