//! MDS shards: records of typed columns, behind a table of offsets and a description of the columns.
//!
//! ```text
//! u32         the number of records
//! u32 each    the offset of each record in the file, and the end of the last
//! JSON        the names, encodings and sizes of the columns
//! records     the sizes of the columns that have no fixed one, as u32; then the columns, one after the other
//! ```
//!
//! All numbers are little-endian. A record becomes a JSON object. Columns that hold images, pickles or bytes are left
//! out: no shape of records has them.

use std::io::Write;
use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::block::{Content, Reader};
use super::input::InputBytes;
use super::sizes::{BLOCK_BYTES, LONGEST_RECORD};
use crate::control::Control;
use crate::error::Result;
use crate::ledger::Reason;

/// Bytes of a number in the table of offsets, and of a size.
const WORD: usize = 4;

/// The records of one shard, numbered from 1.
pub(super) struct MdsReader {
    input: InputBytes,
    /// The table of offsets and the columns, once they are read.
    shard: Option<Shard>,
    /// The index of the next record.
    next_record: usize,
    /// Content that follows the records of the last block.
    next: Option<Content>,
    ended: bool,
}

/// The description of a shard, before its records.
struct Shard {
    /// The end of each record in the file.
    ends: Vec<u32>,
    /// The offset of the next record.
    at: u32,
    columns: Vec<Column>,
}

/// A column of the records.
struct Column {
    /// The name as a JSON string.
    name: Vec<u8>,
    encoding: Encoding,
    /// The bytes of a value, if they are fixed.
    size: Option<usize>,
}

/// The fields of the description that are read.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the format")]
struct Config {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<usize>>,
}

/// The encoding of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Encoding {
    /// UTF-8 text.
    Text,
    /// JSON.
    Json,
    /// A number in digits.
    Digits,
    /// A number.
    Number(Kind),
    /// Numbers, of a kind that each value names if the column does not; with a shape in front if none is fixed.
    Numbers { kind: Option<Kind>, has_shape: bool },
    /// Anything else.
    Other,
}

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
const KINDS: [(Kind, &str, u8); 10] = [
    (Kind::U8, "uint8", 8),
    (Kind::I8, "int8", 9),
    (Kind::U16, "uint16", 16),
    (Kind::I16, "int16", 17),
    (Kind::U32, "uint32", 32),
    (Kind::I32, "int32", 33),
    (Kind::F32, "float32", 34),
    (Kind::U64, "uint64", 64),
    (Kind::I64, "int64", 65),
    (Kind::F64, "float64", 66),
];

impl Kind {
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

impl Encoding {
    fn of(text: &str) -> Self {
        let (name, rest) =
            text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match (name, rest) {
            ("str", None) => Self::Text,
            ("json", None) => Self::Json,
            ("str_int" | "str_float" | "str_decimal", None) => Self::Digits,
            ("int", None) => Self::Number(Kind::I64),
            ("ndarray", None) => Self::Numbers { kind: None, has_shape: true },
            ("ndarray", Some(rest)) => {
                let (kind, shape) = rest.split_once(':').map_or((rest, ""), |parts| parts);
                match Kind::named(kind) {
                    Some(kind) => Self::Numbers { kind: Some(kind), has_shape: shape.is_empty() },
                    None => Self::Other,
                }
            }
            (name, None) => Kind::named(name).map_or(Self::Other, Self::Number),
            _ => Self::Other,
        }
    }

    /// Appends a value as JSON. Fails with the fault of a value that is none of this encoding.
    fn write(&self, value: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
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
            Self::Number(_) | Self::Other => return Err("a number of another size"),
        }
        Ok(())
    }
}

/// Appends numbers as a JSON list. Those of several dimensions follow each other.
fn numbers(
    mut value: &[u8],
    kind: Option<Kind>,
    has_shape: bool,
    out: &mut Vec<u8>,
) -> std::result::Result<(), &'static str> {
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

impl Shard {
    /// Reads what stands before the records. Returns the fault of what is no shard.
    fn read(
        input: &mut InputBytes,
        control: &Control,
    ) -> Result<std::result::Result<Self, String>> {
        let mut bytes = Vec::new();
        if input.fill(&mut bytes, WORD, control)? < WORD {
            return Ok(Err("the file ends before its first record".to_owned()));
        }
        let count = word(&bytes, 0) as usize;
        let table = (count + 1) * WORD;
        let mut offsets = Vec::new();
        if input.fill(&mut offsets, table, control)? < table {
            return Ok(Err(format!("the file ends within the offsets of {count} records")));
        }
        let offsets: Vec<u32> = (0..=count).map(|index| word(&offsets, index * WORD)).collect();
        let first = offsets[0] as usize;
        if first < WORD + table || !offsets.is_sorted() {
            return Ok(Err("the offsets of the records are out of order".to_owned()));
        }
        let described = first - WORD - table;
        let mut text = Vec::new();
        if input.fill(&mut text, described, control)? < described {
            return Ok(Err("the file ends within the description of its columns".to_owned()));
        }
        let columns = match serde_json::from_slice(&text) {
            Ok(config) => columns(config),
            Err(error) => {
                return Ok(Err(format!("the description of its columns is no JSON: {error}")));
            }
        };
        let Some(columns) = columns else {
            return Ok(Err("the description of its columns does not name each of them".to_owned()));
        };
        Ok(Ok(Self { at: offsets[0], ends: offsets[1..].to_vec(), columns }))
    }

    /// Appends a record as a JSON object. Fails with the fault of an invalid record.
    fn write(&self, record: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), String> {
        let short = || "the record is shorter than its columns".to_owned();
        let variable = self.columns.iter().filter(|column| column.size.is_none()).count();
        let (sizes, mut rest) = record.split_at_checked(variable * WORD).ok_or_else(short)?;
        let mut sizes = (0..variable).map(|index| word(sizes, index * WORD) as usize);
        let mut before = b'{';
        for Column { name, encoding, size } in &self.columns {
            let size = size.or_else(|| sizes.next()).unwrap_or(0);
            let (value, after) = rest.split_at_checked(size).ok_or_else(short)?;
            rest = after;
            if *encoding == Encoding::Other {
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

/// The columns of a description; `None` if its lists differ in length.
fn columns(config: Config) -> Option<Vec<Column>> {
    let Config { column_names, column_encodings, column_sizes } = config;
    if column_names.len() != column_encodings.len() || column_names.len() != column_sizes.len() {
        return None;
    }
    let columns = column_names.into_iter().zip(column_encodings).zip(column_sizes);
    let column = |((name, encoding), size): ((String, String), Option<usize>)| Column {
        name: serde_json::to_vec(&name).expect("a text becomes JSON"),
        encoding: Encoding::of(&encoding),
        // A size of nothing is none.
        size: size.filter(|&size| size > 0),
    };
    Some(columns.map(column).collect())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

impl MdsReader {
    pub(super) fn new(input: InputBytes) -> Self {
        Self { input, shard: None, next_record: 0, next: None, ended: false }
    }

    /// Ends the file at the next record.
    fn stop(&mut self, message: String) {
        self.ended = true;
        let message = self.input.take_damage().unwrap_or(message);
        let line = self.next_record as u64 + 1;
        self.next = Some(Content::Broken { line, reason: Reason::Damaged, message });
    }

    /// Reads the next record, and appends it to `bytes` as JSON. Returns its place; `None` if it is not valid.
    fn record(&mut self, bytes: &mut Vec<u8>, control: &Control) -> Result<Option<Range<usize>>> {
        let Some(shard) = &mut self.shard else { return Ok(None) };
        let end = shard.ends[self.next_record];
        let size = (end - shard.at) as usize;
        let mut record = Vec::new();
        if self.input.fill(&mut record, size, control)? < size {
            self.stop("the file ends within the record".to_owned());
            return Ok(None);
        }
        shard.at = end;
        self.next_record += 1;
        let start = bytes.len();
        let written = if size > LONGEST_RECORD {
            Err((Reason::LineTooLong, format!("a record of more than {LONGEST_RECORD} bytes")))
        } else {
            shard.write(&record, bytes).map_err(|fault| (Reason::Damaged, fault))
        };
        if let Err((reason, message)) = written {
            bytes.truncate(start);
            self.next = Some(Content::Refused { line: self.next_record as u64, reason, message });
            return Ok(None);
        }
        Ok(Some(start..bytes.len()))
    }
}

impl Reader for MdsReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<Content>> {
        if self.shard.is_none() && !self.ended {
            match Shard::read(&mut self.input, control)? {
                Ok(shard) => self.shard = Some(shard),
                Err(fault) => self.stop(fault),
            }
        }
        if let Some(content) = self.next.take() {
            return Ok(Some(content));
        }
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let records = self.shard.as_ref().map_or(0, |shard| shard.ends.len());
        while !self.ended && self.next_record < records && bytes.len() < BLOCK_BYTES {
            control.tick()?;
            match self.record(&mut bytes, control)? {
                Some(place) => places.push((self.next_record as u64, place)),
                None => break,
            }
        }
        if places.is_empty() {
            return Ok(self.next.take());
        }
        Ok(Some(Content::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
