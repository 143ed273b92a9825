//! Rows as JSON lines: an object a row, a list of integers a column.

use std::io::{self, Write};

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use arrow::record_batch::RecordBatch;

use super::shard::Sink;

/// A file of lines that is being written.
pub(super) struct Rows {
    sink: Sink,
    line: Vec<u8>,
}

impl Rows {
    pub(super) fn new(sink: Sink) -> Self {
        Self { sink, line: Vec::new() }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
            let lists = column.as_list::<i32>();
            (
                field.name().as_str(),
                lists.value_offsets(),
                lists.values().as_primitive::<Int32Type>(),
            )
        });
        let columns: Vec<_> = columns.collect();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (index, (name, offsets, values)) in columns.iter().enumerate() {
                self.line.push(if index == 0 { b'{' } else { b',' });
                serde_json::to_writer(&mut self.line, name)?;
                self.line.push(b':');
                let (start, end) = (offsets[row].cast_unsigned(), offsets[row + 1].cast_unsigned());
                serde_json::to_writer(
                    &mut self.line,
                    &values.values()[start as usize..end as usize],
                )?;
            }
            self.line.extend_from_slice(b"}\n");
            self.sink.write_all(&self.line)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Sink {
        self.sink
    }
}
