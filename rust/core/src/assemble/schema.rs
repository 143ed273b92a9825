//! Column names, Arrow types and schema metadata: the only home of those strings.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::{Map, Value, json};

use super::compact::{COMPACT, CompactColumn, IdWidth};
use super::images_column::picture_type;
use super::lists::{LABEL_WEIGHTS, item};
use crate::config::{ColumnUnit, LABEL_SPANS, NumberType, RowColumn};

/// The metadata key under which `datasets` keeps the features of a table, as JSON.
const HUGGINGFACE: &str = "huggingface";

/// The metadata key under which a table carries the report of the run that made it, as JSON.
pub const FASTPACK: &str = "fastpack";

/// The name of a column of a batch.
fn stored_name(column: CompactColumn) -> &'static str {
    match column {
        CompactColumn::Plain(column) => column.name(),
        CompactColumn::Ids(_) => RowColumn::InputIds.name(),
        CompactColumn::LabelSpans { shifted } => LABEL_SPANS[usize::from(shifted)],
        CompactColumn::LabelWeights => LABEL_WEIGHTS,
    }
}

/// The number type of a column, and whether a row has a list or one number.
fn numbers(
    column: CompactColumn,
    kind: impl Fn(RowColumn) -> (NumberType, ColumnUnit),
) -> (DataType, bool) {
    match column {
        CompactColumn::Plain(column) => {
            let (number, per) = kind(column);
            let number = match number {
                NumberType::Int32 => DataType::Int32,
                NumberType::Int64 => DataType::Int64,
                NumberType::Float32 => DataType::Float32,
                NumberType::Bool => DataType::Boolean,
                NumberType::Picture { embedded } => picture_type(embedded),
            };
            (number, per != ColumnUnit::Row)
        }
        CompactColumn::Ids(IdWidth::Short) => (DataType::UInt16, true),
        CompactColumn::Ids(IdWidth::Long) => (DataType::UInt32, true),
        CompactColumn::LabelSpans { .. } => (DataType::Int32, true),
        CompactColumn::LabelWeights => (DataType::Float32, true),
    }
}

/// The schema of rows with these columns, with the `huggingface` metadata that `datasets` reads.
///
/// A column is a number a row or a list of numbers, whose item is called `item` and nullable, as `datasets`
/// writes it; no list and no number is ever null.
pub fn schema(columns: &[RowColumn]) -> SchemaRef {
    of_kinds(columns, RowColumn::usual)
}

/// The schema of rows with these columns, each of a kind.
pub(super) fn of_kinds(
    columns: &[RowColumn],
    kind: impl Fn(RowColumn) -> (NumberType, ColumnUnit),
) -> SchemaRef {
    Arc::new(stored_schema(&CompactColumn::plain(columns), kind))
}

/// The schema of the compact layout of rows with these columns.
pub(super) fn compact(
    stored: &[CompactColumn],
    columns: &[RowColumn],
    kind: impl Fn(RowColumn) -> (NumberType, ColumnUnit),
) -> SchemaRef {
    let names: Vec<&str> = columns.iter().map(|&column| column.name()).collect();
    let mut schema = stored_schema(stored, kind);
    schema.metadata.extend([(COMPACT.to_owned(), json!(names).to_string())]);
    Arc::new(schema)
}

fn stored_schema(
    columns: &[CompactColumn],
    kind: impl Fn(RowColumn) -> (NumberType, ColumnUnit),
) -> Schema {
    let fields: Vec<Field> = columns
        .iter()
        .map(|&column| {
            let (number, lists) = numbers(column, &kind);
            let values = if lists { DataType::List(item(number)) } else { number };
            Field::new(stored_name(column), values, true)
        })
        .collect();
    let features = json!({ "info": { "features": features(columns, kind) } });
    Schema::new(fields).with_metadata([(HUGGINGFACE, features.to_string())])
}

/// `schema` with the report of a run (JSON) under the key [`FASTPACK`].
pub fn with_report(schema: &Schema, report: impl Into<String>) -> SchemaRef {
    with_metadata(schema, FASTPACK, report)
}

/// `schema` with a text under a key.
pub fn with_metadata(schema: &Schema, key: &str, text: impl Into<String>) -> SchemaRef {
    let mut metadata = schema.metadata.clone();
    metadata.extend([(key, text)]);
    Arc::new(schema.clone().with_metadata(metadata))
}

/// A value of a type as `datasets` spells it.
fn value_of(kind: &DataType) -> Value {
    let dtype = match kind {
        DataType::Boolean => "bool".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::LargeBinary => "large_binary".to_owned(),
        number => number.to_string().to_lowercase(),
    };
    json!({ "dtype": dtype, "_type": "Value" })
}

/// The features as `datasets` spells them: `Sequence`, which every release reads; `List`, its name since
/// 4.0, is an error to older ones.
fn features(
    columns: &[CompactColumn],
    kind: impl Fn(RowColumn) -> (NumberType, ColumnUnit),
) -> Map<String, Value> {
    let feature = |column| {
        let (number, lists) = numbers(column, &kind);
        if let DataType::Struct(fields) = &number {
            let value = |field: &Arc<Field>| (field.name().clone(), value_of(field.data_type()));
            // A list of objects; `Sequence` would be an object of lists.
            return json!([fields.iter().map(value).collect::<Map<_, _>>()]);
        }
        let value = value_of(&number);
        if lists { json!({ "feature": value, "_type": "Sequence" }) } else { value }
    };
    columns.iter().map(|&column| (stored_name(column).to_owned(), feature(column))).collect()
}
