//! The pictures of a conversation: parts of messages, or `<image>` in their texts, with a file or bytes each.
//!
//! A picture stands in its part, as `transformers` and `OpenAI` write it, or beside the messages in a column, as `TRL`, `LLaVA`
//! and LLaMA-Factory write it. All forms become parts `{"type": "image"}`, and a list of pictures in their order.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericBinaryArray, OffsetSizeTrait, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use fastpack_template::json::{Json, Map};
use twox_hash::XxHash64;

use super::messages::{PICTURE_TYPES, is_picture};
use crate::config::{Fields, PICTURE_COLUMNS};
use crate::record::content_hash;
use crate::record::kinds::{Conversation, Pair};
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::parsing::json;
use crate::record::picture::Picture;
use crate::report::ledger::Reason;
use crate::util::random::STEP;

/// The keys of a picture's file or bytes, in a part and in an object of a column. The first that has one is taken.
const SOURCES: [&str; 6] = ["bytes", "image", "url", "path", "base64", "image_url"];

/// The keys whose texts are bytes in base64.
const ENCODED: [&str; 2] = ["base64", "bytes"];

/// The endings of files of pictures.
const ENDINGS: [&str; 8] = ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"];

/// The fault of a record with pictures that becomes no messages.
pub(crate) const PICTURES_WITH_TEXTS: &str =
    "the record has pictures beside texts; they have a place in messages alone";

/// The place of a picture in a text.
const MARK: &str = "<image>";

/// Finds the pictures of a conversation. Those of the `column` beside it belong to the parts without a file or bytes, or to the
/// marks in the texts, in their order.
pub(crate) fn attach(
    conversation: &mut Conversation,
    column: Option<Vec<Picture>>,
) -> Result<(), Fault> {
    let messages = &mut conversation.messages;
    let listed = column.as_ref().map_or(0, Vec::len);
    if column.is_some() && !messages.iter().any(|message| has_pictures(message)) {
        add_parts(messages, listed);
    }
    let mut column = column.unwrap_or_default().into_iter();
    let mut pictures = Vec::new();
    for (at, message) in messages.iter_mut().enumerate().filter(|(_, it)| has_pictures(it)) {
        let Some(Json::List(parts)) = message.get("content") else { continue };
        let mut new_parts = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter().enumerate() {
            let Json::Map(map) = part else {
                new_parts.push(part.clone());
                continue;
            };
            if !has_picture(part) {
                new_parts.push(part.clone());
                continue;
            }
            let place = format!("messages[{at}].content[{number}]");
            let own = source(map, &place)?;
            let picture = own.or_else(|| column.next()).ok_or_else(|| {
                let more = if listed > 0 { "more " } else { "" };
                let message = format!(
                    "`{place}` is a picture without `image`, `path`, `url` or `base64`, and `images` beside the messages has no {more}pictures"
                );
                Fault::new(Reason::Picture, message)
            })?;
            pictures.push(picture);
            new_parts.push(Json::Map(Arc::new(without_source(map))));
        }
        let mut changed = Map::clone(message);
        changed.insert(Arc::from("content"), Json::List(Arc::new(new_parts)));
        *message = Arc::new(changed);
    }
    let left = column.len();
    if left > 0 {
        let message = format!(
            "`images` holds {listed} pictures, and the messages have places for {}",
            listed - left
        );
        return Err(Fault::new(Reason::Picture, message));
    }
    conversation.pictures = pictures;
    Ok(())
}

/// The number of pictures in a message.
pub(crate) fn pictures_in(message: &Map) -> usize {
    let Some(Json::List(parts)) = message.get("content") else { return 0 };
    parts.iter().filter(|part| has_picture(part)).count()
}

/// True if a message has a part that is a picture.
fn has_pictures(message: &Map) -> bool {
    pictures_in(message) > 0
}

fn has_picture(part: &Json) -> bool {
    let Json::Map(part) = part else { return false };
    matches!(part.get("type"), Some(Json::String(kind)) if is_picture(kind))
}

/// A part that is a picture without its file or bytes.
fn without_source(part: &Map) -> Map {
    let others = part.iter().filter(|(key, _)| !SOURCES.contains(&&***key));
    others
        .map(|(key, value)| match &**key {
            "type" => (Arc::clone(key), Json::String(PICTURE_TYPES[0].into())),
            _ => (Arc::clone(key), value.clone()),
        })
        .collect()
}

/// Puts parts in the places of marks. Without any mark, the pictures come before the first text of a user, as in TRL.
fn add_parts(messages: &mut [Arc<Map>], count: usize) {
    let mut has_marks = false;
    for message in messages.iter_mut() {
        let Some(content) = message.get("content").and_then(split_at_marks) else { continue };
        has_marks = true;
        let mut changed = Map::clone(message);
        changed.insert(Arc::from("content"), content);
        *message = Arc::new(changed);
    }
    let is_user = |message: &&mut Arc<Map>| matches!(message.get("role"), Some(Json::String(role)) if **role == *"user");
    let Some(first) = messages.iter_mut().find(is_user).filter(|_| !has_marks && count > 0) else {
        return;
    };
    let pictures = std::iter::repeat_n(picture_part(), count);
    let others = match first.get("content") {
        Some(Json::String(text)) => vec![text_part(text)],
        Some(Json::List(parts)) => parts.to_vec(),
        _ => Vec::new(),
    };
    let mut changed = Map::clone(first);
    let parts: Vec<Json> = pictures.chain(others).collect();
    changed.insert(Arc::from("content"), Json::List(Arc::new(parts)));
    *first = Arc::new(changed);
}

/// A content whose texts have marks with these as parts; `None` without any.
fn split_at_marks(content: &Json) -> Option<Json> {
    let marked = |part: &Json| match part {
        Json::Map(part) => match part.get("text") {
            Some(Json::String(text)) => text.contains(MARK).then(|| Arc::clone(text)),
            _ => None,
        },
        _ => None,
    };
    match content {
        Json::String(text) => text.contains(MARK).then(|| Json::List(Arc::new(parts_of(text)))),
        Json::List(parts) if parts.iter().any(|part| marked(part).is_some()) => {
            let split = parts.iter().flat_map(|part| match marked(part) {
                Some(text) => parts_of(&text),
                None => vec![part.clone()],
            });
            Some(Json::List(Arc::new(split.collect())))
        }
        _ => None,
    }
}

/// The parts of a text with marks. The line break that sets a mark apart from the text goes with the mark.
fn parts_of(text: &str) -> Vec<Json> {
    let mut parts = Vec::new();
    for (number, piece) in text.split(MARK).enumerate() {
        let mut piece = piece;
        if number > 0 {
            parts.push(picture_part());
            piece = piece.strip_prefix('\n').unwrap_or(piece);
        }
        if !piece.is_empty() {
            parts.push(text_part(piece));
        }
    }
    if let [.., Json::Map(before), Json::Map(last)] = &parts[..]
        && last.get("type") == Some(&Json::String(PICTURE_TYPES[0].into()))
        && let Some(Json::String(text)) = before.get("text")
        && let Some(text) = text.strip_suffix('\n')
    {
        let part = text_part(text);
        let at = parts.len() - 2;
        parts[at] = part;
    }
    parts
}

fn picture_part() -> Json {
    let kind = (Arc::from("type"), Json::String(PICTURE_TYPES[0].into()));
    Json::Map(Arc::new([kind].into_iter().collect()))
}

fn text_part(text: &str) -> Json {
    let kind = (Arc::from("type"), Json::String("text".into()));
    let text = (Arc::from("text"), Json::String(text.into()));
    Json::Map(Arc::new([kind, text].into_iter().collect()))
}

/// The picture of a part or of an object of a column; `None` if it names no file and has no bytes.
fn source(map: &Map, place: &str) -> Result<Option<Picture>, Fault> {
    let named = SOURCES.iter().filter_map(|key| Some((*key, map.get(*key)?)));
    let mut named = named.filter(|(_, value)| **value != Json::Null);
    let Some((key, value)) = named.next() else { return Ok(None) };
    match value {
        Json::Map(inner) => source(inner, &format!("{place}.{key}")),
        Json::String(text) if ENCODED.contains(&key) => Ok(Some(Picture::encoded(text, place))),
        Json::String(text) => Ok(Some(Picture::named_by(text, place))),
        other => Err(wrong_type(
            &format!("{place}.{key}"),
            "a path, a URL or bytes in base64",
            Some(other),
        )),
    }
}

/// The pictures beside the messages of a record; `None` if it has no such column.
pub(crate) fn of_record(record: &Map, fields: &Fields) -> Result<Option<Vec<Picture>>, Fault> {
    let Some((column, value)) = column_of_record(record, fields) else { return Ok(None) };
    let unfolded = match value {
        // Cells of CSV hold lists as JSON, and nothing where there is no picture.
        Json::String(text) if text.trim().is_empty() => return Ok(None),
        Json::String(text) if text.trim_start().starts_with('[') => {
            json::parse(text.as_bytes()).ok()
        }
        _ => None,
    };
    match unfolded.as_ref().unwrap_or(value) {
        Json::List(items) => {
            let items = items.iter().enumerate();
            let pictures = items.map(|(at, item)| of_value(item, &format!("{column}[{at}]")));
            pictures.collect::<Result<_, _>>().map(Some)
        }
        item => Ok(Some(vec![of_value(item, column)?])),
    }
}

/// The column of pictures of a record, if the record has a value there.
fn column_of_record<'f, 'r>(record: &'r Map, fields: &'f Fields) -> Option<(&'f str, &'r Json)> {
    let mut columns = fields.picture_columns().filter_map(|name| Some((name, record.get(name)?)));
    columns.find(|(_, value)| **value != Json::Null)
}

fn of_value(value: &Json, place: &str) -> Result<Picture, Fault> {
    let picture = match value {
        Json::String(text) => Some(Picture::named_by(text, place)),
        Json::Map(map) => source(map, place)?,
        _ => None,
    };
    picture.ok_or_else(|| {
        wrong_type(place, "a path, a URL, or an object with `path`, `url` or `bytes`", Some(value))
    })
}

/// The column of pictures of a row of a table, if the row has a value there.
fn column_of_row<'f, 'b>(
    batch: &'b RecordBatch,
    row: usize,
    fields: &'f Fields,
) -> Option<(&'f str, &'b ArrayRef)> {
    let columns = fields.picture_columns();
    let mut columns = columns.filter_map(|name| Some((name, batch.column_by_name(name)?)));
    columns.find(|(_, array)| is_present(array.as_ref(), row))
}

/// True for a value that is not null.
fn is_present(array: &dyn Array, at: usize) -> bool {
    *array.data_type() != DataType::Null && array.is_valid(at)
}

/// True if a request has a mark.
pub(crate) fn is_marked(pair: &Pair) -> bool {
    pair.request.contains(MARK) || pair.input.as_ref().is_some_and(|input| input.contains(MARK))
}

/// True if a conversation without pictures has a mark in a text.
pub(crate) fn has_mark_alone(conversation: &Conversation) -> bool {
    let has_mark = |content: &Json| split_at_marks(content).is_some();
    let mut contents = conversation.messages.iter().filter_map(|message| message.get("content"));
    conversation.pictures.is_empty() && contents.any(has_mark)
}

/// A field of these, which are not read, that seems to hold pictures.
pub(crate) fn other_column(fields: &Map) -> Option<String> {
    let seems = |value: &Json| {
        let first = match value {
            Json::List(items) => items.first(),
            value => Some(value),
        };
        first.is_some_and(|value| of_value(value, "").is_ok_and(|picture| seems_picture(&picture)))
    };
    fields.iter().find(|(_, value)| seems(value)).map(|(name, _)| name.to_string())
}

/// A column that seems to hold pictures in a row, and that is not read.
pub(crate) fn other_column_of_row(
    batch: &RecordBatch,
    row: usize,
    fields: &Fields,
) -> Option<String> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let mut others = columns.filter(|(field, _)| !fields.names_pictures(field.name()));
    let found = others.find(|(_, array)| {
        let pictures = of_column(array, row, "");
        pictures.is_ok_and(|pictures| pictures.first().is_some_and(seems_picture))
    });
    found.map(|(field, _)| field.name().clone())
}

/// True for bytes that are a picture, and for a path with the ending of one.
fn seems_picture(picture: &Picture) -> bool {
    match picture {
        Picture::Held(held) => held.size().is_ok(),
        Picture::File(name) => Path::new(&**name)
            .extension()
            .is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))),
    }
}

/// The fault of a record with marks whose pictures seem to be in a column that is not read.
pub(crate) fn unnamed(column: &str) -> Fault {
    let message = format!(
        "the messages have `{MARK}`, and the record no pictures in the columns that are read; `{column}` seems to hold them: \
         name it, `fields={{\"images\": \"{column}\"}}`"
    );
    Fault::new(Reason::Picture, message)
}

/// The fault of a record with marks whose column of pictures has none.
pub(crate) fn null(column: &str) -> Fault {
    let message = format!("the messages have `{MARK}`, and `{column}` is null");
    Fault::new(Reason::Picture, message)
}

/// The hash of the pictures beside the messages of a record; 0 if it has no such column.
pub(crate) fn hash_of_record(record: &Map, fields: &Fields) -> u64 {
    let found = column_of_record(record, fields);
    found.map_or(0, |(_, value)| {
        content_hash::entry(PICTURE_COLUMNS[0], content_hash::of_value(value))
    })
}

/// The hash of the pictures in a row of a table; 0 if it has no such column.
pub(crate) fn hash_of_row(batch: &RecordBatch, row: usize, fields: &Fields) -> u64 {
    let Some((_, array)) = column_of_row(batch, row, fields) else { return 0 };
    content_hash::entry(PICTURE_COLUMNS[0], hash_of_cell(array.as_ref(), row))
}

fn hash_of_cell(array: &dyn Array, at: usize) -> u64 {
    if !is_present(array, at) {
        return 0;
    }
    let of_all = |items: &dyn Array| {
        (0..items.len())
            .fold(0_u64, |hash, at| hash.wrapping_mul(STEP).wrapping_add(hash_of_cell(items, at)))
    };
    match array.data_type() {
        DataType::List(_) => of_all(array.as_list::<i32>().value(at).as_ref()),
        DataType::LargeList(_) => of_all(array.as_list::<i64>().value(at).as_ref()),
        DataType::FixedSizeList(..) => of_all(array.as_fixed_size_list().value(at).as_ref()),
        DataType::Struct(_) => {
            let fields = array.as_struct().columns().iter();
            fields.fold(0, |hash, field| {
                hash.wrapping_mul(STEP).wrapping_add(hash_of_cell(field.as_ref(), at))
            })
        }
        DataType::Binary => XxHash64::oneshot(0, array.as_binary::<i32>().value(at)),
        DataType::LargeBinary => XxHash64::oneshot(0, array.as_binary::<i64>().value(at)),
        DataType::BinaryView => XxHash64::oneshot(0, array.as_binary_view().value(at)),
        DataType::FixedSizeBinary(_) => {
            XxHash64::oneshot(0, array.as_fixed_size_binary().value(at))
        }
        DataType::Utf8 => content_hash::of_string(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => content_hash::of_string(array.as_string::<i64>().value(at)),
        DataType::Utf8View => content_hash::of_string(array.as_string_view().value(at)),
        _ => 0,
    }
}

/// The pictures of a row of a table, which may hold bytes; `None` if it has no such column.
pub(crate) fn of_row(
    batch: &RecordBatch,
    row: usize,
    fields: &Fields,
) -> Result<Option<Vec<Picture>>, Fault> {
    let Some((column, array)) = column_of_row(batch, row, fields) else { return Ok(None) };
    of_column(array, row, column).map(Some)
}

/// The pictures of a row in a column.
fn of_column(array: &ArrayRef, row: usize, column: &str) -> Result<Vec<Picture>, Fault> {
    let items = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::LargeList(_) => array.as_list::<i64>().value(row),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().value(row),
        _ => return Ok(vec![of_cell(array.as_ref(), row, column)?]),
    };
    let pictures =
        (0..items.len()).map(|at| of_cell(items.as_ref(), at, &format!("{column}[{at}]")));
    pictures.collect()
}

/// The picture in a cell: a text, bytes, or a struct of `bytes` and `path`, as `datasets` keeps pictures.
fn of_cell(array: &dyn Array, at: usize, place: &str) -> Result<Picture, Fault> {
    let misfit = || {
        let message = format!("`{place}` must be a path, bytes, or a struct of `bytes` and `path`");
        Fault::new(Reason::Picture, message)
    };
    if !is_present(array, at) {
        return Err(misfit());
    }
    if let DataType::Dictionary(..) = array.data_type() {
        // All keys of an array are normalised at once, so only one is passed.
        let one = array.slice(at, 1);
        let dictionary = one.as_any_dictionary();
        return of_cell(dictionary.values().as_ref(), dictionary.normalized_keys()[0], place);
    }
    let named = |text: &str| Ok(Picture::named_by(&text.into(), place));
    let of_bytes = |bytes: Buffer| Ok(Picture::of_bytes(bytes, place));
    match array.data_type() {
        DataType::Utf8 => named(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => named(array.as_string::<i64>().value(at)),
        DataType::Utf8View => named(array.as_string_view().value(at)),
        DataType::Binary => of_bytes(bytes_of(array.as_binary::<i32>(), at)),
        DataType::LargeBinary => of_bytes(bytes_of(array.as_binary::<i64>(), at)),
        DataType::BinaryView => of_bytes(array.as_binary_view().value(at).into()),
        DataType::FixedSizeBinary(_) => of_bytes(array.as_fixed_size_binary().value(at).into()),
        DataType::Struct(_) => {
            let fields = array.as_struct();
            let valid = |name: &str| {
                fields.column_by_name(name).filter(|field| is_present(field.as_ref(), at))
            };
            let field = valid("bytes").or_else(|| valid("path")).ok_or_else(misfit)?;
            of_cell(field.as_ref(), at, place)
        }
        _ => Err(misfit()),
    }
}

/// The bytes of a cell, which share the memory of the array.
fn bytes_of<O: OffsetSizeTrait>(array: &GenericBinaryArray<O>, at: usize) -> Buffer {
    let start = array.value_offsets()[at].as_usize();
    array.values().slice_with_length(start, array.value(at).len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_parts_with_the_line_breaks_that_set_them_apart() {
        let shown = |part: &Json| match part {
            Json::Map(part) => match part.get("text") {
                Some(Json::String(text)) => text.to_string(),
                _ => MARK.to_owned(),
            },
            other => panic!("{other:?}"),
        };
        let parts = |text: &str| parts_of(text).iter().map(shown).collect::<Vec<_>>();
        assert_eq!(parts("<image>\nwhat?"), ["<image>", "what?"]);
        assert_eq!(parts("what?\n<image>"), ["what?", "<image>"]);
        assert_eq!(parts("<image>\n<image>\n\na"), ["<image>", "<image>", "\na"]);
        assert_eq!(parts("a <image> b"), ["a ", "<image>", " b"]);
        assert_eq!(parts("<image>"), ["<image>"]);
        assert_eq!(parts("\n<image>"), ["", "<image>"]);
    }
}
