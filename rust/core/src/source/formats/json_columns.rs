//! Columns of type JSON: texts whose field says that each of them is a JSON value.
//!
//! Arrow marks them by the extension type `arrow.json`, Parquet by its logical type. Other types of texts hold texts,
//! whatever is in them. This module tells which columns are of that type; `record/tables/row.rs` makes their texts values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::schema::types::SchemaDescriptor;

/// The key of an extension type in the metadata of a field.
const EXTENSION: &str = "ARROW:extension:name";

/// The extension type of JSON.
const JSON: &str = "arrow.json";

/// The mark of texts that a function of the caller returns in place of values of type JSON.
const RETURNED: &str = "fastpack.returned_json";

/// The kind of the texts of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonFieldKind {
    /// Texts.
    Text,
    /// JSON values.
    Json,
    /// JSON values where they are JSON, else texts.
    Returned,
}

impl JsonFieldKind {
    /// The kind of the texts of `field`.
    pub(crate) fn of(field: &Field) -> Self {
        match field.extension_type_name() {
            Some(JSON) => Self::Json,
            Some(RETURNED) => Self::Returned,
            _ => Self::Text,
        }
    }
}

/// The field of a column that a function returned for a column of the field `input`. Texts in the place of JSON values
/// are marked: libraries that do not know the type give back its texts.
pub(crate) fn returned(input: &Field, output: &FieldRef) -> FieldRef {
    let is_text = |field: &Field| {
        matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    if is_text(output) && JsonFieldKind::of(output) == JsonFieldKind::Text {
        let was_json = is_text(input) && JsonFieldKind::of(input) == JsonFieldKind::Json;
        return if was_json { marked(output, RETURNED) } else { Arc::clone(output) };
    }
    let inside = match (input.data_type(), output.data_type()) {
        (DataType::Struct(input), DataType::Struct(output)) => {
            let fields = output.iter().map(|output| {
                let known = input.iter().find(|input| input.name() == output.name());
                known.map_or_else(|| Arc::clone(output), |input| returned(input, output))
            });
            Some(DataType::Struct(fields.collect()))
        }
        (DataType::Map(input, _), DataType::Map(output, sorted)) => {
            Some(DataType::Map(returned(input, output), *sorted))
        }
        // A map comes back as an object.
        (DataType::Map(input, _), DataType::Struct(output)) => match input.data_type() {
            DataType::Struct(entry) if entry.len() == 2 => Some(DataType::Struct(
                output.iter().map(|output| returned(&entry[1], output)).collect(),
            )),
            _ => None,
        },
        (input, output) => inner(input)
            .zip(inner(output))
            .and_then(|(input, field)| with_inner(output, returned(input, field))),
    };
    match inside {
        Some(inside) => Arc::new(output.as_ref().clone().with_data_type(inside)),
        None => Arc::clone(output),
    }
}

/// The fields of a Parquet file with the mark of Arrow at its columns of type JSON; `None` if it has no others than
/// those that are marked.
pub(crate) fn of_parquet(fields: &Fields, columns: &SchemaDescriptor) -> Option<Fields> {
    let is_json: Vec<bool> = columns
        .columns()
        .iter()
        .map(|column| {
            matches!(column.logical_type_ref(), Some(LogicalType::Json))
                || column.converted_type() == ConvertedType::JSON
        })
        .collect();
    if !is_json.contains(&true) {
        return None;
    }
    let mut leaves = is_json.into_iter();
    let marked_fields: Fields = fields.iter().map(|field| of_leaves(field, &mut leaves)).collect();
    (leaves.next().is_none() && marked_fields != *fields).then_some(marked_fields)
}

/// The field with the mark at those of its leaves, in their order, that are of type JSON.
fn of_leaves(field: &FieldRef, leaves: &mut impl Iterator<Item = bool>) -> FieldRef {
    let inside = match field.data_type() {
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| of_leaves(field, leaves)).collect())
        }
        DataType::Map(entries, sorted) => DataType::Map(of_leaves(entries, leaves), *sorted),
        other => match inner(other) {
            Some(items) => {
                let items = of_leaves(items, leaves);
                with_inner(other, items).expect("a list with other items")
            }
            None if leaves.next() == Some(true) => return marked(field, JSON),
            None => return Arc::clone(field),
        },
    };
    Arc::new(field.as_ref().clone().with_data_type(inside))
}

fn marked(field: &FieldRef, name: &str) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.insert(EXTENSION.to_owned(), name.to_owned());
    Arc::new(field.as_ref().clone().with_metadata(metadata))
}

/// The field of the items of a list, or of the entries of a map.
fn inner(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(items)
        | DataType::LargeList(items)
        | DataType::ListView(items)
        | DataType::LargeListView(items)
        | DataType::FixedSizeList(items, _)
        | DataType::Map(items, _) => Some(items),
        _ => None,
    }
}

/// A list of the same kind with other items.
fn with_inner(list: &DataType, items: FieldRef) -> Option<DataType> {
    Some(match list {
        DataType::List(_) => DataType::List(items),
        DataType::LargeList(_) => DataType::LargeList(items),
        DataType::ListView(_) => DataType::ListView(items),
        DataType::LargeListView(_) => DataType::LargeListView(items),
        DataType::FixedSizeList(_, length) => DataType::FixedSizeList(items, *length),
        _ => return None,
    })
}
