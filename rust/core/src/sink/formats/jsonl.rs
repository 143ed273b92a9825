//! Rows as JSON lines: an object for each row, a list of numbers or an integer for each column.

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;

use super::cells::{Cell, ColumnNumbers};

/// The lines of some rows.
pub(super) fn encode(rows: &[RecordBatch]) -> serde_json::Result<Buffer> {
    let mut lines = Vec::new();
    for batch in rows {
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let columns: Vec<_> = names.zip(batch.columns().iter().map(ColumnNumbers::of)).collect();
        for row in 0..batch.num_rows() {
            for (index, (name, column)) in columns.iter().enumerate() {
                lines.push(if index == 0 { b'{' } else { b',' });
                serde_json::to_writer(&mut lines, name)?;
                lines.push(b':');
                match column.cell(row) {
                    Cell::Integer(value) => serde_json::to_writer(&mut lines, &value)?,
                    Cell::Truth(value) => serde_json::to_writer(&mut lines, &value)?,
                    Cell::Narrow(values) => serde_json::to_writer(&mut lines, values)?,
                    Cell::Real(values) => serde_json::to_writer(&mut lines, values)?,
                    Cell::ShortIds(ids) => serde_json::to_writer(&mut lines, ids)?,
                    Cell::LongIds(ids) => serde_json::to_writer(&mut lines, ids)?,
                    Cell::Wide(values) => serde_json::to_writer(&mut lines, values)?,
                }
            }
            lines.extend_from_slice(b"}\n");
        }
    }
    Ok(Buffer::from_vec(lines))
}
