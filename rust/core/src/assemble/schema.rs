//! Column names, Arrow types and schema metadata: the only home of those strings.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use serde_json::{Map, Value, json};

use crate::config::RowColumn;

/// The metadata key under which `datasets` keeps the features of a table, as JSON.
const HUGGINGFACE: &str = "huggingface";

/// The metadata key under which a table carries the report of the run that made it, as JSON.
pub const FASTPACK: &str = "fastpack";

/// The name of a column of the packed rows.
pub fn name(column: RowColumn) -> &'static str {
    match column {
        RowColumn::InputIds => "input_ids",
        RowColumn::Labels => "labels",
        RowColumn::PositionIds => "position_ids",
        RowColumn::SeqLengths => "seq_lengths",
    }
}

/// The schema of rows with these columns, with the `huggingface` metadata that `datasets` reads.
///
/// Every column is a list of 32-bit integers, whose item is called `item` and nullable, as `datasets`
/// writes it; no list and no item is ever null.
pub fn schema(columns: &[RowColumn]) -> SchemaRef {
    let fields: Vec<Field> = columns
        .iter()
        .map(|&column| Field::new(name(column), DataType::List(item()), true))
        .collect();
    let features = json!({ "info": { "features": features(columns) } });
    Arc::new(Schema::new(fields).with_metadata([(HUGGINGFACE, features.to_string())]))
}

/// `schema` with the report of a run (JSON) under the key [`FASTPACK`].
pub fn with_report(schema: &Schema, report: impl Into<String>) -> SchemaRef {
    let mut metadata = schema.metadata.clone();
    metadata.extend([(FASTPACK, report)]);
    Arc::new(schema.clone().with_metadata(metadata))
}

/// The integers in a row.
pub(super) fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Int32, true))
}

/// The features as `datasets` spells them: `Sequence`, which every release reads; `List`, its name since
/// 4.0, is an error to older ones.
fn features(columns: &[RowColumn]) -> Map<String, Value> {
    let feature = json!({ "feature": { "dtype": "int32", "_type": "Value" }, "_type": "Sequence" });
    columns.iter().map(|&column| (name(column).to_owned(), feature.clone())).collect()
}
