//! Rows as JSON lines, encoded and checked: an object for each row, a list of numbers or an integer for each column. Bytes of pictures are base64.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use arrow::record_batch::RecordBatch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::cells::{Cell, ColumnNumbers};
use crate::error::{Error, Result};
use crate::util::control::Control;

/// The deepest nesting of a line. Rows have objects of pictures in a list in the row; readers that recurse end their process on the
/// deepest.
const DEEPEST: usize = 16;

/// The bytes that are read at once.
const READ: usize = 1 << 20;

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

/// The fault of the first line of a file that cannot be a row: it is no object, or nests too deep; `None` if all can.
pub fn line_fault(path: &Path, control: &Control) -> Result<Option<String>> {
    let file = File::open(path).map_err(Error::io(path))?;
    let mut file = BufReader::with_capacity(READ, file);
    let mut line = LineDepth::default();
    let mut number = 1;
    loop {
        control.tick()?;
        let bytes = file.fill_buf().map_err(Error::io(path))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        for &byte in bytes {
            if byte == b'\n' {
                number += 1;
                line = LineDepth::default();
            } else if let Some(fault) = line.read(byte) {
                return Ok(Some(format!("line {number} {fault}")));
            }
        }
        let read = bytes.len();
        file.consume(read);
    }
}

/// The depth at the bytes of a line.
#[derive(Default)]
struct LineDepth {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl LineDepth {
    /// Reads the next byte. Returns the fault of the line, if there is one.
    fn read(&mut self, byte: u8) -> Option<String> {
        if self.in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return None;
        }
        match byte {
            b'{' | b'[' if self.depth > 0 || byte == b'{' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'"' if self.depth > 0 => self.in_text = true,
            b' ' | b'\t' | b'\r' => {}
            _ if self.depth > 0 => {}
            _ => return Some("is no row, which is an object".to_owned()),
        }
        (self.depth > DEEPEST).then(|| format!("nests deeper than {DEEPEST} levels"))
    }
}
