//! Parses a CBOR item into a [`Map`], as Python's `cbor2` does, as far as JSON can hold it.

use std::sync::Arc;

use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error;
use num_bigint::BigInt;

use super::fault::Fault;
use super::json::MAX_DEPTH;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// Reads one item, which must be an object, with the fields that are `wanted`. If `lenient`, fields that JSON
/// cannot hold are left out.
pub(crate) fn parse(
    item: &[u8],
    wanted: impl Fn(&str) -> bool,
    lenient: bool,
) -> Result<Map, Fault> {
    let mut decoder = Decoder::new(item);
    record(&mut decoder, wanted, lenient).map_err(|error| match error {
        CborRefusal::Depth => {
            Fault::new(Reason::TooDeep, format!("nested deeper than {MAX_DEPTH} lists and objects"))
        }
        CborRefusal::Object(found) => {
            Fault::new(Reason::NotAnObject, format!("expected an object, found {found}"))
        }
        CborRefusal::Type(found) => {
            Fault::new(Reason::WrongType, format!("the item holds {found}, which is no JSON"))
        }
        CborRefusal::Utf8 => Fault::new(Reason::InvalidUtf8, "a text of the item is not UTF-8"),
        CborRefusal::Cbor(error) => Fault::new(Reason::InvalidCbor, format!("not CBOR: {error}")),
    })
}

fn record(
    decoder: &mut Decoder<'_>,
    wanted: impl Fn(&str) -> bool,
    lenient: bool,
) -> Result<Map, CborRefusal> {
    let kind = untagged(decoder)?;
    if !matches!(kind, Type::Map | Type::MapIndef) {
        return Err(CborRefusal::Object(kind.to_string()));
    }
    let mut left = decoder.map()?;
    let mut entries = Map::default();
    while has_next_item(decoder, &mut left)? {
        let key = key(decoder)?;
        let start = decoder.position();
        if wanted(&key) {
            match value(decoder, 1) {
                Ok(item) => {
                    entries.insert(key, item);
                    continue;
                }
                Err(CborRefusal::Type(_)) if lenient => decoder.set_position(start),
                Err(refused) => return Err(refused),
            }
        }
        // Items were cut by their heads, so only the content of a text can be invalid.
        decoder.skip().map_err(|_| CborRefusal::Utf8)?;
    }
    Ok(entries)
}

/// The type of the current item, after the tag that marks CBOR.
fn untagged(decoder: &mut Decoder<'_>) -> Result<Type, CborRefusal> {
    if decoder.datatype()? == Type::Tag
        && decoder.input()[decoder.position()..].starts_with(SELF_DESCRIBED)
    {
        decoder.tag()?;
    }
    Ok(decoder.datatype()?)
}

/// The tag that marks the following item as CBOR.
const SELF_DESCRIBED: &[u8] = b"\xd9\xd9\xf7";

fn key(decoder: &mut Decoder<'_>) -> Result<Arc<str>, CborRefusal> {
    match decoder.datatype()? {
        Type::String | Type::StringIndef => text(decoder),
        other => Err(CborRefusal::Type(format!("{other} as a name"))),
    }
}

/// The reason that an item is no value.
enum CborRefusal {
    Depth,
    Object(String),
    Type(String),
    Utf8,
    Cbor(Error),
}

impl From<Error> for CborRefusal {
    fn from(error: Error) -> Self {
        Self::Cbor(error)
    }
}

fn value(decoder: &mut Decoder<'_>, depth: usize) -> Result<Json, CborRefusal> {
    if depth > MAX_DEPTH {
        return Err(CborRefusal::Depth);
    }
    Ok(match decoder.datatype()? {
        Type::Null | Type::Undefined => {
            decoder.skip()?;
            Json::Null
        }
        Type::Bool => Json::Bool(decoder.bool()?),
        Type::U8
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::I8
        | Type::I16
        | Type::I32
        | Type::I64
        | Type::Int => integer(i128::from(decoder.int()?)),
        Type::F16 => Json::Float(decoder.f16()?.into()),
        Type::F32 => Json::Float(decoder.f32()?.into()),
        Type::F64 => Json::Float(decoder.f64()?),
        Type::String | Type::StringIndef => Json::String(text(decoder)?),
        Type::Array | Type::ArrayIndef => list(decoder, depth + 1)?,
        Type::Map | Type::MapIndef => map(decoder, depth + 1)?,
        other => return Err(CborRefusal::Type(other.to_string())),
    })
}

fn integer(number: i128) -> Json {
    i64::try_from(number).map_or_else(|_| Json::BigInt(Arc::new(BigInt::from(number))), Json::Int)
}

/// A text, which may come in pieces.
fn text(decoder: &mut Decoder<'_>) -> Result<Arc<str>, CborRefusal> {
    let mut whole = String::new();
    for piece in decoder.str_iter()? {
        whole.push_str(piece.map_err(|_| CborRefusal::Utf8)?);
    }
    Ok(Arc::from(whole))
}

/// True if the current list or object continues. `left` is the number of items left, if known.
fn has_next_item(decoder: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, CborRefusal> {
    match left {
        Some(0) => Ok(false),
        Some(count) => {
            *count -= 1;
            Ok(true)
        }
        None if decoder.datatype()? == Type::Break => {
            decoder.set_position(decoder.position() + 1);
            Ok(false)
        }
        None => Ok(true),
    }
}

fn list(decoder: &mut Decoder<'_>, depth: usize) -> Result<Json, CborRefusal> {
    let mut left = decoder.array()?;
    let mut items = Vec::new();
    while has_next_item(decoder, &mut left)? {
        items.push(value(decoder, depth)?);
    }
    Ok(Json::List(Arc::new(items)))
}

fn map(decoder: &mut Decoder<'_>, depth: usize) -> Result<Json, CborRefusal> {
    let mut left = decoder.map()?;
    let mut entries = Map::default();
    while has_next_item(decoder, &mut left)? {
        let key = key(decoder)?;
        let item = value(decoder, depth)?;
        entries.insert(key, item);
    }
    Ok(Json::Map(Arc::new(entries)))
}
