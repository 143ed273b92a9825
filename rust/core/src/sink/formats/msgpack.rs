//! Rows as `MessagePack`: one array with an array for each row.

use std::io;

use arrow::array::AsArray;
use arrow::buffer::Buffer;
use arrow::datatypes::Int32Type;
use arrow::record_batch::RecordBatch;
use rmp::encode::{write_array_len, write_sint};

/// The marker of an array with a 32-bit length, and the length: it is known at the end of the file.
pub(crate) fn head(rows: u32) -> [u8; 5] {
    let [a, b, c, d] = rows.to_be_bytes();
    [0xdd, a, b, c, d]
}

/// Rows of lists of 32-bit numbers: the columns in their order, and then the length of the first.
pub(super) fn encode(rows: &[RecordBatch]) -> io::Result<Buffer> {
    let mut bytes = Vec::new();
    for batch in rows {
        let count = u32::try_from(batch.num_columns()).expect("rows have a handful of columns");
        for row in 0..batch.num_rows() {
            write_array_len(&mut bytes, count + 1)?;
            let mut tokens = None;
            for column in batch.columns() {
                let values = column.as_list::<i32>().value(row);
                let values = values.as_primitive::<Int32Type>().values();
                let length = u32::try_from(values.len()).expect("the reach of an Arrow list");
                write_array_len(&mut bytes, length)?;
                for &value in values {
                    write_sint(&mut bytes, value.into())?;
                }
                tokens.get_or_insert(length);
            }
            write_sint(&mut bytes, tokens.unwrap_or(0).into())?;
        }
    }
    Ok(Buffer::from_vec(bytes))
}
