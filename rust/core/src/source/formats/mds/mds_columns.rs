//! [`MdsColumns`]: the columns of a shard, and the JSON of its records.

use std::io::Write;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::size_numbers::{WORD, word};
use super::tiff;
use crate::config::PICTURE_COLUMNS;
use crate::source::formats::picture_json::write_picture;

/// The columns of the records, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MdsColumns(Vec<MdsColumn>);

/// A column of the records.
#[derive(Debug, PartialEq, Eq)]
struct MdsColumn {
    /// The name as a JSON string.
    name: Vec<u8>,
    encoding: MdsEncoding,
    /// The bytes of a value, if they are fixed.
    size: Option<usize>,
}

/// The fields of the description that are read.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the format")]
struct MdsConfig {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<usize>>,
}

/// The encoding of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MdsEncoding {
    /// UTF-8 text.
    Text,
    /// JSON.
    Json,
    /// A number in digits.
    Digits,
    /// A number.
    Number(MdsType),
    /// Numbers, of a kind that each value names if the column does not; with a shape in front if none is fixed.
    Numbers { kind: Option<MdsType>, has_shape: bool },
    /// A picture.
    Picture(MdsPicture),
    /// Pictures: their number and their sizes, and then the pictures; behind a number without a meaning in some.
    Pictures { each: MdsPicture, has_first_number: bool },
    /// Anything else.
    Other,
}

/// The form of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MdsPicture {
    /// The bytes of a file.
    File,
    /// Pixels behind their size and mode.
    Pixels,
}

/// The fault of a value that ends within its pictures.
const CUT_OFF: &str = "pictures that are cut off";

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MdsType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

/// Each type of numbers, with its name and the byte that names it in an array.
const KINDS: [(MdsType, &str, u8); 10] = [
    (MdsType::U8, "uint8", 8),
    (MdsType::I8, "int8", 9),
    (MdsType::U16, "uint16", 16),
    (MdsType::I16, "int16", 17),
    (MdsType::U32, "uint32", 32),
    (MdsType::I32, "int32", 33),
    (MdsType::F32, "float32", 34),
    (MdsType::U64, "uint64", 64),
    (MdsType::I64, "int64", 65),
    (MdsType::F64, "float64", 66),
];

impl MdsType {
    fn named(name: &str) -> Option<Self> {
        KINDS.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    /// Bytes of a number.
    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Appends a number as JSON. `value` has as many bytes as it takes.
    fn write(self, value: &[u8], out: &mut Vec<u8>) {
        let mut wide = [0; 8];
        wide[..value.len()].copy_from_slice(value);
        let word = u64::from_le_bytes(wide);
        // The bytes beyond those of the number are zeros, so the lowest ones are the number.
        let unused = 64 - 8 * value.len();
        let signed = (word << unused).cast_signed() >> unused;
        let written = match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => write!(out, "{word}"),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => write!(out, "{signed}"),
            Self::F32 => {
                let number = value.first_chunk().map_or(0.0, |it| f32::from_le_bytes(*it));
                return float(f64::from(number), out);
            }
            Self::F64 => return float(f64::from_le_bytes(wide), out),
        };
        written.expect("memory takes all that is written");
    }
}

/// Appends a number as JSON, which has none that is not finite.
fn float(number: f64, out: &mut Vec<u8>) {
    serde_json::to_writer(out, &number).expect("memory takes all that is written");
}

impl MdsEncoding {
    /// The encoding of a column by its description; bytes are pictures in the columns that records have for them.
    fn of(column: &str, text: &str) -> Self {
        let (name, rest) =
            text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let is_picture = PICTURE_COLUMNS.contains(&column);
        match (name, rest) {
            ("str", None) => Self::Text,
            ("json", None) => Self::Json,
            ("str_int" | "str_float" | "str_decimal", None) => Self::Digits,
            ("int", None) => Self::Number(MdsType::I64),
            ("bytes", None) if is_picture => Self::Picture(MdsPicture::File),
            ("jpeg" | "png", None) => Self::Picture(MdsPicture::File),
            ("pil", None) => Self::Picture(MdsPicture::Pixels),
            ("list[jpeg]" | "list[png]", None) => {
                Self::Pictures { each: MdsPicture::File, has_first_number: true }
            }
            ("list[pil]", None) => {
                Self::Pictures { each: MdsPicture::Pixels, has_first_number: true }
            }
            ("jpeg_array" | "jpegarray", None) => {
                Self::Pictures { each: MdsPicture::File, has_first_number: false }
            }
            ("ndarray", None) => Self::Numbers { kind: None, has_shape: true },
            ("ndarray", Some(rest)) => {
                let (kind, shape) = rest.split_once(':').map_or((rest, ""), |parts| parts);
                match MdsType::named(kind) {
                    Some(kind) => Self::Numbers { kind: Some(kind), has_shape: shape.is_empty() },
                    None => Self::Other,
                }
            }
            (name, None) => MdsType::named(name).map_or(Self::Other, Self::Number),
            _ => Self::Other,
        }
    }

    /// Appends a value as JSON. Fails with the fault of a value that is none of this encoding.
    fn write(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        match self {
            Self::Text => {
                let text = std::str::from_utf8(value).map_err(|_| "a text that is not UTF-8")?;
                serde_json::to_writer(out, text).expect("memory takes all that is written");
            }
            Self::Json | Self::Digits => {
                let is_json = serde_json::from_slice::<IgnoredAny>(value).is_ok();
                if !is_json {
                    return Err("a value that is not JSON");
                }
                out.extend_from_slice(value);
            }
            Self::Number(kind) if value.len() == kind.bytes() => kind.write(value, out),
            Self::Numbers { kind, has_shape } => numbers(value, *kind, *has_shape, out)?,
            Self::Picture(kind) => kind.write(value, out)?,
            Self::Pictures { each, has_first_number } => {
                let first = if *has_first_number { WORD } else { 0 };
                pictures(value.get(first..).ok_or(CUT_OFF)?, *each, out)?;
            }
            Self::Number(_) | Self::Other => return Err("a number of another size"),
        }
        Ok(())
    }
}

/// Appends numbers as a JSON list. Those of several dimensions follow each other.
fn numbers(
    mut value: &[u8],
    kind: Option<MdsType>,
    has_shape: bool,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    const SHORT: &str = "an array that is cut off";
    let kind = if let Some(kind) = kind {
        kind
    } else {
        let (&mark, rest) = value.split_first().ok_or(SHORT)?;
        value = rest;
        let known = KINDS.iter().find(|known| known.2 == mark);
        known.ok_or("an array of numbers of an unknown type")?.0
    };
    if has_shape {
        let (&mark, rest) = value.split_first().ok_or(SHORT)?;
        let sizes = usize::from(mark >> 2) << (mark & 3);
        value = rest.get(sizes..).ok_or(SHORT)?;
    }
    if !value.len().is_multiple_of(kind.bytes()) {
        return Err(SHORT);
    }
    out.push(b'[');
    for (index, number) in value.chunks_exact(kind.bytes()).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        kind.write(number, out);
    }
    out.push(b']');
    Ok(())
}

impl MdsPicture {
    /// Appends a picture as JSON: the bytes of its file.
    fn write(self, value: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        let converted;
        let file = match self {
            Self::File => value,
            Self::Pixels => {
                converted = tiff::file_of(value)?;
                &converted
            }
        };
        write_picture(file, out);
        Ok(())
    }
}

/// Appends pictures as a JSON list.
fn pictures(value: &[u8], each: MdsPicture, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (count, rest) = value.split_at_checked(WORD).ok_or(CUT_OFF)?;
    let sizes = (word(count, 0) as usize).checked_mul(WORD).ok_or(CUT_OFF)?;
    let (sizes, mut files) = rest.split_at_checked(sizes).ok_or(CUT_OFF)?;
    out.push(b'[');
    for (index, at) in (0..sizes.len()).step_by(WORD).enumerate() {
        let size = word(sizes, at) as usize;
        let (file, others) = files.split_at_checked(size).ok_or(CUT_OFF)?;
        files = others;
        if index > 0 {
            out.push(b',');
        }
        each.write(file, out)?;
    }
    out.push(b']');
    Ok(())
}

impl MdsColumns {
    /// The columns of a description, or the fault of a text that is none.
    pub(super) fn described(text: &[u8]) -> Result<Self, String> {
        let config: MdsConfig = serde_json::from_slice(text)
            .map_err(|error| format!("the description of its columns is no JSON: {error}"))?;
        let MdsConfig { column_names, column_encodings, column_sizes } = config;
        let count = column_names.len();
        if column_encodings.len() != count || column_sizes.len() != count {
            return Err("the description of its columns does not name each of them".to_owned());
        }
        let columns = column_names.into_iter().zip(column_encodings).zip(column_sizes);
        let column = |((name, encoding), size): ((String, String), Option<usize>)| MdsColumn {
            encoding: MdsEncoding::of(&name, &encoding),
            name: serde_json::to_vec(&name).expect("a text becomes JSON"),
            // A size of nothing is none.
            size: size.filter(|&size| size > 0),
        };
        Ok(Self(columns.map(column).collect()))
    }

    /// Appends a record as a JSON object. Fails with the fault of an invalid record.
    pub(super) fn write(&self, record: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let short = || "the record is shorter than its columns".to_owned();
        let variable = self.0.iter().filter(|column| column.size.is_none()).count();
        let (sizes, mut rest) = record.split_at_checked(variable * WORD).ok_or_else(short)?;
        let mut sizes = (0..variable).map(|index| word(sizes, index * WORD) as usize);
        let mut before = b'{';
        for MdsColumn { name, encoding, size } in &self.0 {
            let size = size.or_else(|| sizes.next()).unwrap_or(0);
            let (value, after) = rest.split_at_checked(size).ok_or_else(short)?;
            rest = after;
            if *encoding == MdsEncoding::Other {
                continue;
            }
            out.push(before);
            before = b',';
            out.extend_from_slice(name);
            out.push(b':');
            let name = String::from_utf8_lossy(name);
            encoding.write(value, out).map_err(|what| format!("the column {name} holds {what}"))?;
        }
        if before == b'{' {
            out.push(b'{');
        }
        out.push(b'}');
        Ok(())
    }
}
