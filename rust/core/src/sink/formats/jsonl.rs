//! Rows as JSON lines: an object for each row, a list of numbers or an integer for each column. Bytes of pictures are base64.

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use arrow::record_batch::RecordBatch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

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
                    Cell::Pictures(values, start, end) => {
                        let pictures: Vec<_> = (start..end).map(|at| picture(values, at)).collect();
                        serde_json::to_writer(&mut lines, &pictures)?;
                    }
                }
            }
            lines.extend_from_slice(b"}\n");
        }
    }
    Ok(Buffer::from_vec(lines))
}

/// A picture as an object.
fn picture(pictures: &StructArray, at: usize) -> Map<String, Value> {
    let fields = pictures.fields().iter().zip(pictures.columns());
    let value = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8 => json!(column.as_string::<i32>().value(at)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(at)),
        DataType::LargeBinary => json!(STANDARD.encode(column.as_binary::<i64>().value(at))),
        _ => json!(column.as_primitive::<Int32Type>().value(at)),
    };
    fields.map(|(field, column)| (field.name().clone(), value(column))).collect()
}
