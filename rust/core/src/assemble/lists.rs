//! [`Lists`]: a column of rows that were written, with a list of numbers for each row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, downcast_integer_array,
};
use arrow::datatypes::{DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type};
use arrow::record_batch::RecordBatch;
use num_traits::NumCast;

use crate::config::RowColumn;
use crate::error::{Error, Result};

/// The name of the weights of the runs of labels in the compact layout.
pub(super) const LABEL_WEIGHTS: &str = "label_weights";

/// True if a column holds weights, which are real numbers.
fn is_weights(name: &str) -> bool {
    name == RowColumn::LossWeights.name() || name == LABEL_WEIGHTS
}

/// The numbers in a list.
pub(super) fn item(number: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(number, true))
}

/// The lists of a column: all values, and where the list of each row ends.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    values: ArrayRef,
    ends: Vec<usize>,
}

impl Lists {
    /// The lists of a column; `None` if the batch does not have it.
    ///
    /// Fails with [`Error::Rows`] if it holds something else, or nulls.
    pub(super) fn of(batch: &RecordBatch, name: &str) -> Result<Option<Self>> {
        let Some(column) = batch.column_by_name(name) else { return Ok(None) };
        let misfit = || {
            let kind = type_name(column.data_type());
            Error::Rows(format!(
                "column `{name}` is {kind}, which packed rows have as lists of numbers, without nulls"
            ))
        };
        let lists = Self::split(column).ok_or_else(misfit)?;
        let kind = lists.values.data_type();
        let is_number = kind.is_integer() || is_weights(name) && kind.is_floating();
        let is_wrong = !is_number && !lists.values.is_empty();
        if column.null_count() > 0 || lists.has_nulls() || is_wrong {
            return Err(misfit());
        }
        Ok(Some(lists))
    }

    /// The values and ends of a column of lists; `None` if it holds none, or a list leaves the values.
    pub(super) fn split(column: &ArrayRef) -> Option<Self> {
        let (values, offsets): (&ArrayRef, Vec<usize>) = match column.data_type() {
            DataType::List(_) => {
                let lists = column.as_list::<i32>();
                let offsets = lists.offsets().iter().map(|&at| usize::try_from(at).ok());
                (lists.values(), offsets.collect::<Option<_>>()?)
            }
            DataType::LargeList(_) => {
                let lists = column.as_list::<i64>();
                let offsets = lists.offsets().iter().map(|&at| usize::try_from(at).ok());
                (lists.values(), offsets.collect::<Option<_>>()?)
            }
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).ok()?;
                let offsets = (0..=column.len()).map(|row| row * size);
                (column.as_fixed_size_list().values(), offsets.collect())
            }
            _ => return None,
        };
        let (first, last) = (*offsets.first()?, *offsets.last()?);
        if last > values.len() || !offsets.is_sorted() {
            return None;
        }
        let ends = offsets[1..].iter().map(|end| end - first).collect();
        Some(Self { values: values.slice(first, last - first), ends })
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.ends.len()
    }

    /// True if there are nulls among the values.
    pub(super) fn has_nulls(&self) -> bool {
        self.values.null_count() > 0
    }

    /// True if the values are real numbers.
    pub(super) fn are_real(&self) -> bool {
        self.values.data_type().is_floating()
    }

    /// True if the values are numbers, without nulls.
    pub(super) fn are_numbers(&self) -> bool {
        (self.are_real() || self.values.data_type().is_integer()) && !self.has_nulls()
    }

    /// The places of the values of some rows.
    pub(super) fn places(&self, rows: Range<usize>) -> Range<usize> {
        let end = |row: usize| if row == 0 { 0 } else { self.ends[row - 1] };
        end(rows.start)..end(rows.end)
    }

    /// The number of values of a row.
    pub(super) fn len(&self, row: usize) -> usize {
        self.places(row..row + 1).len()
    }

    /// The values of some rows, end to end.
    pub(super) fn numbers<T: ArrowPrimitiveType<Native: NumCast>>(
        &self,
        rows: Range<usize>,
    ) -> Result<PrimitiveArray<T>> {
        let places = self.places(rows);
        numbers(&self.values.slice(places.start, places.len()))
    }
}

/// The numbers of an array as numbers of one type, nulls as they are. Fails with [`Error::Rows`] if one does not fit.
///
/// arrow's own `cast` takes every type to every other, which is 3 MB of machine code.
pub(super) fn numbers<T: ArrowPrimitiveType<Native: NumCast>>(
    values: &ArrayRef,
) -> Result<PrimitiveArray<T>> {
    if let Some(same) = values.as_primitive_opt::<T>() {
        return Ok(same.clone());
    }
    let array = values.as_ref();
    downcast_integer_array!(
        array => of_numbers(array),
        DataType::Float16 => of_numbers(array.as_primitive::<Float16Type>()),
        DataType::Float32 => of_numbers(array.as_primitive::<Float32Type>()),
        DataType::Float64 => of_numbers(array.as_primitive::<Float64Type>()),
        _ if array.is_empty() => Ok(PrimitiveArray::new_null(0)),
        other => Err(Error::Rows(format!("{} holds no numbers", type_name(other)))),
    )
}

/// The numbers of an array of one type as numbers of another.
fn of_numbers<From: ArrowPrimitiveType<Native: NumCast>, T: ArrowPrimitiveType<Native: NumCast>>(
    values: &PrimitiveArray<From>,
) -> Result<PrimitiveArray<T>> {
    values.try_unary(|value| {
        let misfit = || Error::Rows(format!("{value:?} does not fit into {}", T::DATA_TYPE));
        NumCast::from(value).ok_or_else(misfit)
    })
}

/// The lists of a column as numbers of one type.
#[derive(Debug)]
pub(crate) struct NumberLists<T: ArrowPrimitiveType> {
    lists: Lists,
    numbers: PrimitiveArray<T>,
}

impl<T: ArrowPrimitiveType<Native: NumCast>> NumberLists<T> {
    /// The lists of a column; `None` if the batch does not have it. Fails as [`Lists::of`] does.
    pub(crate) fn of(batch: &RecordBatch, name: &str) -> Result<Option<Self>> {
        let Some(lists) = Lists::of(batch, name)? else { return Ok(None) };
        let numbers = lists.numbers(0..lists.rows())?;
        Ok(Some(Self { lists, numbers }))
    }

    /// The numbers of a row.
    pub(crate) fn row(&self, row: usize) -> &[T::Native] {
        &self.numbers.values()[self.lists.places(row..row + 1)]
    }
}

/// The name of a type, as `pyarrow` spells it.
pub(super) fn type_name(kind: &DataType) -> String {
    let of = |item: &FieldRef| format!("<{}: {}>", item.name(), type_name(item.data_type()));
    match kind {
        DataType::List(item) => format!("list{}", of(item)),
        DataType::LargeList(item) => format!("large_list{}", of(item)),
        DataType::FixedSizeList(item, size) => format!("fixed_size_list{}[{size}]", of(item)),
        DataType::Utf8 => "string".to_owned(),
        DataType::LargeUtf8 => "large_string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}
