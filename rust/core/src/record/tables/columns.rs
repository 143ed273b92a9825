//! JSON values to Arrow arrays: with their common type, or as JSON text if they have none.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, NullArray, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{Field, Fields};
use indexmap::IndexMap;

use crate::record::parsing::write;
use fastpack_template::json::Json;

/// The common type of some values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnType {
    /// They are all null.
    Null,
    Bool,
    Int,
    Float,
    Text,
    List(Box<ColumnType>),
    Struct(IndexMap<Arc<str>, ColumnType>),
    /// No common type: all values but texts become JSON text.
    Json,
}

impl ColumnType {
    pub(crate) fn of(value: &Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(_) => Self::Bool,
            Json::Int(_) => Self::Int,
            Json::BigInt(_) => Self::Json,
            Json::Float(_) => Self::Float,
            Json::String(_) => Self::Text,
            Json::List(items) => {
                let inner = items.iter().fold(Self::Null, |kind, item| kind.and(Self::of(item)));
                if inner == Self::Json { Self::Json } else { Self::List(Box::new(inner)) }
            }
            Json::Map(map) => {
                let fields = map.iter().map(|(key, value)| (Arc::clone(key), Self::of(value)));
                Self::of_fields(fields.collect())
            }
        }
    }

    /// If a field has no common type, the whole object has none: half a value as JSON would be of no use.
    fn of_fields(fields: IndexMap<Arc<str>, ColumnType>) -> Self {
        if fields.values().any(|kind| *kind == Self::Json) {
            return Self::Json;
        }
        Self::Struct(fields)
    }

    /// The common type of both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (Self::Int, Self::Float) | (Self::Float, Self::Int) => Self::Float,
            (Self::List(one), Self::List(other)) => match one.and(*other) {
                Self::Json => Self::Json,
                inner => Self::List(Box::new(inner)),
            },
            (Self::Struct(mut fields), Self::Struct(others)) => {
                for (key, kind) in others {
                    let known = fields.entry(key).or_insert(Self::Null);
                    *known = std::mem::replace(known, Self::Null).and(kind);
                }
                Self::of_fields(fields)
            }
            (one, other) if one == other => one,
            _ => Self::Json,
        }
    }
}

/// The values as an array of this type. Absent values are null.
pub(crate) fn column(kind: &ColumnType, values: &[Option<&Json>]) -> ArrayRef {
    let each = values.iter().copied();
    match kind {
        ColumnType::Null => Arc::new(NullArray::new(values.len())),
        ColumnType::Bool => Arc::new(each.map(truth).collect::<BooleanArray>()),
        ColumnType::Int => Arc::new(each.map(whole).collect::<Int64Array>()),
        ColumnType::Float => Arc::new(each.map(real).collect::<Float64Array>()),
        ColumnType::Text | ColumnType::Json => Arc::new(each.map(text).collect::<StringArray>()),
        ColumnType::List(inner) => list(inner, values),
        ColumnType::Struct(fields) => structs(fields, values),
    }
}

fn truth(value: Option<&Json>) -> Option<bool> {
    if let Some(Json::Bool(truth)) = value { Some(*truth) } else { None }
}

fn whole(value: Option<&Json>) -> Option<i64> {
    if let Some(Json::Int(number)) = value { Some(*number) } else { None }
}

fn real(value: Option<&Json>) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "as Arrow and pandas join the two")]
        Some(Json::Int(number)) => Some(*number as f64),
        Some(Json::Float(number)) => Some(*number),
        _ => None,
    }
}

fn text(value: Option<&Json>) -> Option<String> {
    match value {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) => Some(text.to_string()),
        Some(other) => Some(json_text(other)),
    }
}

fn json_text(value: &Json) -> String {
    let mut bytes = Vec::new();
    write::json(value, &mut bytes);
    String::from_utf8(bytes).expect("JSON of strings is UTF-8")
}

fn list(inner: &ColumnType, values: &[Option<&Json>]) -> ArrayRef {
    let lists = values.iter().map(|value| match value {
        Some(Json::List(items)) => Some(items),
        _ => None,
    });
    let nulls: NullBuffer = lists.clone().map(|list| list.is_some()).collect();
    let offsets =
        OffsetBuffer::from_lengths(lists.clone().map(|list| list.map_or(0, |it| it.len())));
    let items: Vec<Option<&Json>> =
        lists.flatten().flat_map(|items| items.iter().map(Some)).collect();
    let items = column(inner, &items);
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Arc::new(ListArray::new(field, offsets, items, Some(nulls)))
}

fn structs(fields: &IndexMap<Arc<str>, ColumnType>, values: &[Option<&Json>]) -> ArrayRef {
    let maps: Vec<_> = values
        .iter()
        .map(|value| match value {
            Some(Json::Map(map)) => Some(map),
            _ => None,
        })
        .collect();
    let nulls: NullBuffer = maps.iter().map(Option::is_some).collect();
    let arrays: Vec<ArrayRef> = fields
        .iter()
        .map(|(key, kind)| {
            let values: Vec<_> = maps.iter().map(|map| map.and_then(|map| map.get(key))).collect();
            column(kind, &values)
        })
        .collect();
    if arrays.is_empty() {
        return Arc::new(StructArray::new_empty_fields(values.len(), Some(nulls)));
    }
    let names = fields.keys().zip(&arrays);
    let fields: Fields =
        names.map(|(key, array)| Field::new(&**key, array.data_type().clone(), true)).collect();
    Arc::new(StructArray::new(fields, arrays, Some(nulls)))
}
