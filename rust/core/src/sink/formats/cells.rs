//! [`ColumnNumbers`]: the numbers of a column of packed rows, row by row, for formats that are written by row.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use arrow::datatypes::{DataType, Float32Type, Int32Type, Int64Type, UInt16Type, UInt32Type};

/// A column of packed rows: an integer a row, or a list of numbers.
pub(crate) enum ColumnNumbers<'a> {
    /// The start and end of the numbers of each row.
    Lists(&'a [i32], CellValues<'a>),
    Integers(CellValues<'a>),
}

/// Numbers of one type.
pub(crate) enum CellValues<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
    Real(&'a [f32]),
    /// Ids in the compact layout.
    ShortIds(&'a [u16]),
    LongIds(&'a [u32]),
    Truths(&'a BooleanArray),
    Pictures(&'a StructArray),
}

/// The value of a column in one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Integer(i64),
    Truth(bool),
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
    Real(&'a [f32]),
    ShortIds(&'a [u16]),
    LongIds(&'a [u32]),
    /// The pictures in a range of an array.
    Pictures(&'a StructArray, usize, usize),
}

impl<'a> ColumnNumbers<'a> {
    /// A column as [`crate::assemble`] makes it.
    pub(crate) fn of(column: &'a ArrayRef) -> Self {
        match column.as_list_opt::<i32>() {
            Some(lists) => Self::Lists(lists.value_offsets(), CellValues::of(lists.values())),
            None => Self::Integers(CellValues::of(column)),
        }
    }

    /// The value in one row.
    pub(crate) fn cell(&self, row: usize) -> Cell<'a> {
        match self {
            Self::Lists(offsets, values) => {
                let (start, end) = (offsets[row].cast_unsigned(), offsets[row + 1].cast_unsigned());
                let range = start as usize..end as usize;
                match values {
                    CellValues::Narrow(values) => Cell::Narrow(&values[range]),
                    CellValues::Wide(values) => Cell::Wide(&values[range]),
                    CellValues::Real(values) => Cell::Real(&values[range]),
                    CellValues::ShortIds(values) => Cell::ShortIds(&values[range]),
                    CellValues::LongIds(values) => Cell::LongIds(&values[range]),
                    // No column has lists of truths.
                    CellValues::Truths(values) => Cell::Truth(values.value(range.start)),
                    CellValues::Pictures(values) => Cell::Pictures(values, range.start, range.end),
                }
            }
            Self::Integers(CellValues::Narrow(values)) => Cell::Integer(values[row].into()),
            Self::Integers(CellValues::Wide(values)) => Cell::Integer(values[row]),
            Self::Integers(CellValues::Truths(values)) => Cell::Truth(values.value(row)),
            Self::Integers(CellValues::Pictures(values)) => Cell::Pictures(values, row, row + 1),
            // No column has a single float or id for each row.
            Self::Integers(CellValues::Real(values)) => Cell::Real(&values[row..=row]),
            Self::Integers(CellValues::ShortIds(values)) => Cell::ShortIds(&values[row..=row]),
            Self::Integers(CellValues::LongIds(values)) => Cell::LongIds(&values[row..=row]),
        }
    }

    /// The bytes that Arrow stores for a row: its integers, and an offset for a list.
    pub(crate) fn bytes(&self, row: usize) -> u64 {
        const OFFSET: u64 = 4;
        /// The offset of a path, and the other fields of a picture.
        const PICTURE: u64 = 4 + 2 * 8 + 5 * 4;
        match (self, self.cell(row)) {
            (_, Cell::Narrow(values)) => OFFSET + 4 * values.len() as u64,
            (_, Cell::Real(values)) => OFFSET + 4 * values.len() as u64,
            (_, Cell::ShortIds(values)) => OFFSET + 2 * values.len() as u64,
            (_, Cell::LongIds(values)) => OFFSET + 4 * values.len() as u64,
            (_, Cell::Wide(values)) => OFFSET + 8 * values.len() as u64,
            (Self::Integers(CellValues::Narrow(_)), Cell::Integer(_)) => 4,
            (_, Cell::Integer(_)) => 8,
            (_, Cell::Truth(_)) => 1,
            (_, Cell::Pictures(values, start, end)) => {
                let paths = values.column(0).as_string::<i32>().value_offsets();
                let text = (paths[end] - paths[start]).cast_unsigned();
                OFFSET
                    + u64::from(text)
                    + PICTURE * (end - start) as u64
                    + content_size(values, start..end)
            }
        }
    }
}

/// The bytes of embedded pictures, and of their offsets.
fn content_size(pictures: &StructArray, range: Range<usize>) -> u64 {
    const OFFSET: u64 = 8;
    let bytes = pictures.columns().iter().filter_map(|column| column.as_binary_opt::<i64>());
    let sizes = bytes.map(|bytes| {
        let offsets = bytes.value_offsets();
        (offsets[range.end] - offsets[range.start]).cast_unsigned() + OFFSET * range.len() as u64
    });
    sizes.sum()
}

impl<'a> CellValues<'a> {
    fn of(values: &'a ArrayRef) -> Self {
        match values.data_type() {
            DataType::Float32 => Self::Real(values.as_primitive::<Float32Type>().values()),
            DataType::UInt16 => Self::ShortIds(values.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Self::LongIds(values.as_primitive::<UInt32Type>().values()),
            DataType::Boolean => Self::Truths(values.as_boolean()),
            DataType::Struct(_) => Self::Pictures(values.as_struct()),
            DataType::Int64 => Self::Wide(values.as_primitive::<Int64Type>().values()),
            _ => Self::Narrow(values.as_primitive::<Int32Type>().values()),
        }
    }
}
