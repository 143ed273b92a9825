//! A row of a table, or a line of texts, to a [`Map`], as Python's `to_pylist` and `DictReader` give them.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigInt;

use crate::record::parsing::fault::Fault;
use crate::record::parsing::json;
use crate::report::ledger::Reason;
use crate::source::LineCells;
use crate::source::formats::json_columns::JsonFieldKind;
use fastpack_template::json::{Json, Map};

/// The columns of a row that are `wanted`.
pub(crate) fn row(
    batch: &RecordBatch,
    row: usize,
    wanted: impl Fn(&str) -> bool,
) -> Result<Map, Fault> {
    let mut record = Map::default();
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if wanted(field.name()) {
            let value = value_of::<true>(field, field.data_type(), column, row);
            let value = value.map_err(|fault| named(field, &fault))?;
            if record.insert(Arc::from(field.name().as_str()), value).is_some() {
                let message = format!("`{}` is the name of two columns; rename one", field.name());
                return Err(Fault::new(Reason::WrongType, message));
            }
        }
    }
    Ok(record)
}

/// The fault of a value of a column, with its name.
pub(crate) fn named(column: &Field, fault: &Fault) -> Fault {
    Fault::new(fault.reason, format!("`{}` {}", column.name(), fault.message))
}

/// The columns of a row that are `wanted` and that JSON can hold, with the pictures in them.
pub(crate) fn readable(batch: &RecordBatch, row: usize, wanted: impl Fn(&str) -> bool) -> Map {
    readable_of::<true>(batch, row, wanted)
}

/// The columns of a row that JSON can hold without encoding bytes.
pub(crate) fn plain(batch: &RecordBatch, row: usize) -> Map {
    readable_of::<false>(batch, row, |_| true)
}

fn readable_of<const PICTURES: bool>(
    batch: &RecordBatch,
    row: usize,
    wanted: impl Fn(&str) -> bool,
) -> Map {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let columns = columns.filter(|(field, _)| wanted(field.name()));
    let values = columns.filter_map(|(field, column)| {
        let value = value_of::<PICTURES>(field, field.data_type(), column, row).ok()?;
        Some((Arc::from(field.name().as_str()), value))
    });
    values.collect()
}

/// The cells that are `wanted`.
pub(crate) fn cells(
    names: &[Arc<str>],
    cells: &LineCells,
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

/// One value of an array of this field. Fails if JSON has no such type, or if the text of a column of type JSON is none.
pub(crate) fn value(field: &Field, array: &dyn Array, at: usize) -> Result<Json, Fault> {
    value_of::<false>(field, field.data_type(), array, at)
}

/// One value of an array of this type, which is the field's or that of the values of its dictionary. Bytes that are a picture are
/// an object with their base64 if `PICTURES` are wanted.
fn value_of<const PICTURES: bool>(
    field: &Field,
    of: &DataType,
    array: &dyn Array,
    at: usize,
) -> Result<Json, Fault> {
    if array.is_null(at) {
        return Ok(Json::Null);
    }
    // The fields inside come from `of`: those of the array lack the marks that only the field has.
    Ok(match of {
        DataType::Null => Json::Null,
        DataType::Utf8 => text(field, array.as_string::<i32>().value(at))?,
        DataType::LargeUtf8 => text(field, array.as_string::<i64>().value(at))?,
        DataType::Utf8View => text(field, array.as_string_view().value(at))?,
        DataType::Binary => bytes::<PICTURES>(field, array.as_binary::<i32>().value(at))?,
        DataType::LargeBinary => bytes::<PICTURES>(field, array.as_binary::<i64>().value(at))?,
        DataType::BinaryView => bytes::<PICTURES>(field, array.as_binary_view().value(at))?,
        DataType::FixedSizeBinary(_) => {
            bytes::<PICTURES>(field, array.as_fixed_size_binary().value(at))?
        }
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
        DataType::List(of) => list::<PICTURES>(of, array.as_list::<i32>().value(at).as_ref())?,
        DataType::LargeList(of) => list::<PICTURES>(of, array.as_list::<i64>().value(at).as_ref())?,
        DataType::ListView(of) => {
            list::<PICTURES>(of, array.as_list_view::<i32>().value(at).as_ref())?
        }
        DataType::LargeListView(of) => {
            list::<PICTURES>(of, array.as_list_view::<i64>().value(at).as_ref())?
        }
        DataType::FixedSizeList(of, _) => {
            list::<PICTURES>(of, array.as_fixed_size_list().value(at).as_ref())?
        }
        DataType::Dictionary(..) => {
            // All keys of an array are normalised at once, so only one is passed.
            let one = array.slice(at, 1);
            let dictionary = one.as_any_dictionary();
            let (values, key) = (dictionary.values(), dictionary.normalized_keys()[0]);
            return value_of::<PICTURES>(field, values.data_type(), values, key);
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let mut map = Map::default();
            for (field, column) in columns {
                let value = value_of::<PICTURES>(field, field.data_type(), column, at)?;
                if map.insert(Arc::from(field.name().as_str()), value).is_some() {
                    return Err(no_json(&format!("two fields of the name `{}`", field.name())));
                }
            }
            Json::Map(Arc::new(map))
        }
        DataType::Map(of, _) => entries::<PICTURES>(of, &array.as_map().value(at))?,
        other => return Err(no_json(&format!("a {other}"))),
    })
}

fn no_json(found: &str) -> Fault {
    Fault::new(Reason::WrongType, format!("holds {found}, which is no JSON"))
}

/// A text, or the value that it is the JSON of.
fn text(field: &Field, text: &str) -> Result<Json, Fault> {
    let string = || Json::String(Arc::from(text));
    match JsonFieldKind::of(field) {
        JsonFieldKind::Text => Ok(string()),
        JsonFieldKind::Returned => Ok(json::parse(text.as_bytes()).unwrap_or_else(|_| string())),
        JsonFieldKind::Json => json::parse(text.as_bytes()).map_err(|fault| {
            let message = format!("is of type JSON but holds other text: {}", fault.message);
            Fault::new(fault.reason, message)
        }),
    }
}

/// Bytes as the text that they are: some writers, such as Spark, leave out that a column holds text.
fn bytes<const PICTURES: bool>(field: &Field, bytes: &[u8]) -> Result<Json, Fault> {
    match simdutf8::compat::from_utf8(bytes) {
        Ok(text) => self::text(field, text),
        Err(_) if PICTURES && fastpack_picture::size(Cursor::new(bytes)).is_ok() => {
            let text = Json::String(STANDARD.encode(bytes).into());
            Ok(Json::Map(Arc::new([(Arc::from("base64"), text)].into_iter().collect())))
        }
        Err(error) => {
            let at = error.valid_up_to() + 1;
            let message = format!(
                "holds bytes that are no text: byte {at} is not UTF-8; decode them with `map`, or write the column as text"
            );
            Err(Fault::new(Reason::InvalidUtf8, message))
        }
    }
}

fn integer<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array, at: usize) -> Json {
    Json::Int(array.as_primitive::<T>().value(at).into())
}

fn list<const PICTURES: bool>(field: &Field, items: &dyn Array) -> Result<Json, Fault> {
    let items: Result<_, _> = (0..items.len())
        .map(|at| value_of::<PICTURES>(field, field.data_type(), items, at))
        .collect();
    Ok(Json::List(Arc::new(items?)))
}

/// The keys and values of a map.
fn entries<const PICTURES: bool>(field: &Field, entries: &StructArray) -> Result<Json, Fault> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(no_json("a map without entries"));
    };
    let [(key, keys), (field, values)] = [0, 1].map(|at| (&fields[at], entries.column(at)));
    let mut map = Map::default();
    for at in 0..entries.len() {
        let Json::String(name) = value(key, keys, at)? else {
            return Err(no_json(&format!("a map with keys of {}", key.data_type())));
        };
        let value = value_of::<PICTURES>(field, field.data_type(), values, at)?;
        if map.insert(Arc::clone(&name), value).is_some() {
            return Err(no_json(&format!("a map with two keys `{name}`")));
        }
    }
    Ok(Json::Map(Arc::new(map)))
}
