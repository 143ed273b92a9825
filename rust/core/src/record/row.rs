//! A row of a table, or a line of texts, to a [`Map`], as Python's `to_pylist` and `DictReader` give them.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use num_bigint::BigInt;

use super::fault::Fault;
use crate::ledger::Reason;
use crate::source::Cells;
use fastpack_template::json::{Json, Map};

/// The columns of a row that are `wanted`.
pub(super) fn row(
    batch: &RecordBatch,
    row: usize,
    wanted: impl Fn(&str) -> bool,
) -> Result<Map, Fault> {
    let mut record = Map::default();
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if wanted(field.name()) {
            let value = value(column, row).map_err(|found| {
                let message = format!("`{}` holds {found}, which is no JSON", field.name());
                Fault::new(Reason::WrongType, message)
            })?;
            if record.insert(Arc::from(field.name().as_str()), value).is_some() {
                let message = format!("`{}` is the name of two columns; rename one", field.name());
                return Err(Fault::new(Reason::WrongType, message));
            }
        }
    }
    Ok(record)
}

/// The columns of a row that are `wanted` and that JSON can hold.
pub(super) fn readable(batch: &RecordBatch, row: usize, wanted: impl Fn(&str) -> bool) -> Map {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let columns = columns.filter(|(field, _)| wanted(field.name()));
    let values = columns.filter_map(|(field, column)| {
        Some((Arc::from(field.name().as_str()), value(column, row).ok()?))
    });
    values.collect()
}

/// The cells that are `wanted`.
pub(super) fn cells(
    names: &[Arc<str>],
    cells: &Cells,
    wanted: impl Fn(&str) -> bool,
) -> Result<Map, Fault> {
    if cells.count() != names.len() {
        let message = format!("{} cells under {} names", cells.count(), names.len());
        return Err(Fault::new(Reason::WrongType, message));
    }
    let mut record = Map::default();
    for (name, cell) in names.iter().zip(cells.iter()).filter(|(name, _)| wanted(name)) {
        let text = simdutf8::basic::from_utf8(cell)
            .map_err(|_| Fault::new(Reason::InvalidUtf8, format!("`{name}` is not UTF-8")))?;
        record.insert(Arc::clone(name), Json::String(Arc::from(text)));
    }
    Ok(record)
}

/// One value of an array; fails with the type if JSON has no such type.
pub(super) fn value(array: &dyn Array, at: usize) -> Result<Json, String> {
    if array.is_null(at) {
        return Ok(Json::Null);
    }
    let text = |text: &str| Json::String(Arc::from(text));
    Ok(match array.data_type() {
        DataType::Null => Json::Null,
        DataType::Utf8 => text(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(at)),
        DataType::Utf8View => text(array.as_string_view().value(at)),
        DataType::Boolean => Json::Bool(array.as_boolean().value(at)),
        DataType::Int8 => integer::<Int8Type>(array, at),
        DataType::Int16 => integer::<Int16Type>(array, at),
        DataType::Int32 => integer::<Int32Type>(array, at),
        DataType::Int64 => integer::<Int64Type>(array, at),
        DataType::UInt8 => integer::<UInt8Type>(array, at),
        DataType::UInt16 => integer::<UInt16Type>(array, at),
        DataType::UInt32 => integer::<UInt32Type>(array, at),
        DataType::UInt64 => {
            let number = array.as_primitive::<UInt64Type>().value(at);
            i64::try_from(number)
                .map_or_else(|_| Json::BigInt(Arc::new(BigInt::from(number))), Json::Int)
        }
        DataType::Float16 => Json::Float(array.as_primitive::<Float16Type>().value(at).into()),
        DataType::Float32 => Json::Float(array.as_primitive::<Float32Type>().value(at).into()),
        DataType::Float64 => Json::Float(array.as_primitive::<Float64Type>().value(at)),
        DataType::List(_) => list(array.as_list::<i32>().value(at).as_ref())?,
        DataType::LargeList(_) => list(array.as_list::<i64>().value(at).as_ref())?,
        DataType::ListView(_) => list(array.as_list_view::<i32>().value(at).as_ref())?,
        DataType::LargeListView(_) => list(array.as_list_view::<i64>().value(at).as_ref())?,
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(at).as_ref())?,
        DataType::Dictionary(..) => {
            // All keys of an array are normalised at once, so only one is passed.
            let one = array.slice(at, 1);
            let dictionary = one.as_any_dictionary();
            return value(dictionary.values(), dictionary.normalized_keys()[0]);
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let mut map = Map::default();
            for (field, column) in columns {
                if map.insert(Arc::from(field.name().as_str()), value(column, at)?).is_some() {
                    return Err(format!("two fields of the name `{}`", field.name()));
                }
            }
            Json::Map(Arc::new(map))
        }
        other => return Err(format!("a {other}")),
    })
}

fn integer<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array, at: usize) -> Json {
    Json::Int(array.as_primitive::<T>().value(at).into())
}

fn list(items: &dyn Array) -> Result<Json, String> {
    let items: Result<_, _> = (0..items.len()).map(|at| value(items, at)).collect();
    Ok(Json::List(Arc::new(items?)))
}
