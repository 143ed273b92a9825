//! [`InputFormat`]: the container and compression of a file, by its name, or else by its content.

use std::ffi::OsStr;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use super::ipc::damage::FILE_MAGIC;
use crate::config::ShapeName;
use crate::error::{Error, Result};
use crate::source::compression::Compression;
use crate::source::decompressed_input::InputBytes;
use crate::source::sizes::BYTE_ORDER_MARK;
use crate::storage::{Location, is_web};
use crate::util::control::Control;

/// Bytes that are read to recognise a file.
const PEEKED: usize = 64 << 10;

/// The first bytes of a Parquet file.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// The optional first bytes of a CBOR file.
const CBOR_MAGIC: &[u8] = b"\xd9\xd9\xf7";

/// The first bytes of CBOR maps, with which no UTF-8 text begins.
const CBOR_MAPS: RangeInclusive<u8> = 0xa0..=0xbf;

/// Control characters that texts may contain: tab, line feed, form feed and carriage return.
const IN_TEXTS: [u8; 4] = *b"\t\n\x0c\r";

/// The first bytes of an Arrow IPC stream.
const STREAM_MAGIC: &[u8] = b"\xff\xff\xff\xff";

/// The container of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// One JSON value in each line.
    Lines,
    /// A JSON array, or one JSON value in each line.
    Json,
    /// A table in text, its cells separated by commas.
    Csv,
    /// A table in text, its cells separated by tabs.
    Tsv,
    /// One text, or several with a separator between them.
    Text,
    /// CBOR items, one after another.
    Cbor,
    /// Records of typed columns behind a table of offsets, as `MosaicML`'s streaming library writes them.
    Mds,
    /// A Parquet file.
    Parquet,
    /// An Arrow IPC file or stream.
    Arrow,
    /// No file: records that the caller gives.
    Records,
}

/// Each container with the extensions of its files, the usual one first.
const ENDINGS: [(Container, &[&str]); 9] = [
    (Container::Lines, &["jsonl", "ndjson"]),
    (Container::Json, &["json"]),
    (Container::Csv, &["csv"]),
    (Container::Tsv, &["tsv"]),
    (Container::Text, &["txt", "md"]),
    (Container::Cbor, &["cbor", "cborl", "cborseq"]),
    (Container::Mds, &["mds"]),
    (Container::Parquet, &["parquet"]),
    (Container::Arrow, &["arrow", "feather", "arrows", "ipc"]),
];

/// The container and compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputFormat {
    /// The container of the records.
    pub container: Container,
    /// The compression.
    pub compression: Option<Compression>,
}

impl fmt::Display for InputFormat {
    /// Written as file extensions: `jsonl.gz`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = ENDINGS.iter().find(|(container, _)| *container == self.container);
        f.write_str(ending.map_or("records", |(_, endings)| endings[0]))?;
        self.compression.map_or(Ok(()), |compression| write!(f, ".{}", compression.ending()))
    }
}

/// The format according to a file's name.
pub(crate) fn by_name(path: &Path) -> (Option<Container>, Option<Compression>) {
    let ending = |path: &Path| path.extension().and_then(OsStr::to_str).map(str::to_lowercase);
    let compression = ending(path).and_then(|ending| Compression::by_ending(&ending));
    let inner = match compression {
        Some(_) => path.file_stem().map(Path::new),
        None => Some(path),
    };
    let container = inner.and_then(ending).and_then(|ending| {
        let found = ENDINGS.iter().find(|(_, endings)| endings.contains(&ending.as_str()));
        found.map(|(container, _)| *container)
    });
    (container, compression)
}

/// The format of a file: by its name, or else by its first bytes.
///
/// # Errors
///
/// [`Error::Io`] for a file that cannot be read, [`Error::Option`] for a compressed file of a container that is
/// read from its end.
pub(crate) fn recognise(location: &Location, control: &Control) -> Result<InputFormat> {
    let path = location.name();
    let (container, named) = by_name(path);
    let compression = compression(location, container, named)?;
    let (container, at_end) = if let Some(container) = container {
        (container, container == Container::Parquet)
    } else {
        let mut input = InputBytes::open(location, compression)?;
        let start = input.peek(PEEKED, control)?;
        if is_web(&path.to_string_lossy()) && is_html(start) {
            let reason = format!(
                "`{}` is a page of HTML, and no file of records; give the URL of each file, since a web server lists none; \
                 download a page that is to be packed as text",
                path.display()
            );
            return Err(Error::option("files", reason));
        }
        by_content(start)
    };
    if at_end && let Some(compression) = compression {
        let reason = format!(
            "`{}` is compressed with {}, but is of a format that is read from its end; decompress it",
            path.display(),
            compression.ending()
        );
        return Err(Error::option("files", reason));
    }
    Ok(InputFormat { container, compression })
}

/// The compression of a file, by its name or its first bytes.
fn compression(
    location: &Location,
    container: Option<Container>,
    named: Option<Compression>,
) -> Result<Option<Compression>> {
    if named.is_some() || matches!(container, Some(Container::Parquet | Container::Arrow)) {
        return Ok(named);
    }
    let start = location.start(Compression::LONGEST_MARK).map_err(Error::io(&**location.name()))?;
    Ok(Compression::by_content(&start))
}

/// True if a file without a known extension holds records: a list of objects, an object on each of its first
/// two lines, a text table whose columns have the names of a shape, or another container, by its first bytes.
/// A file named as JSON must be one of the first two.
pub(crate) fn holds_records(location: &Location, control: &Control) -> Result<bool> {
    let (container, named) = by_name(location.name());
    let compression = compression(location, container, named)?;
    let mut input = InputBytes::open(location, compression)?;
    let start = input.peek(PEEKED, control)?;
    let text = text_of(start);
    Ok(match by_content(start).0 {
        Container::Json => {
            matches!(text[1..].trim_ascii_start().first(), None | Some(b'{' | b']'))
        }
        Container::Lines => {
            let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
            let second = lines.find(|line| !line.is_empty()).unwrap_or(b"{");
            // A record may be longer than the bytes read.
            let goes_on = container.is_none() && text.starts_with(b"{\"") && start.len() >= PEEKED;
            is_object(first) && second.starts_with(b"{") || goes_on && !text.contains(&b'\n')
        }
        Container::Csv | Container::Tsv | Container::Parquet | Container::Arrow => {
            container.is_none()
        }
        Container::Cbor => container.is_none() && start.starts_with(CBOR_MAGIC),
        Container::Text | Container::Mds | Container::Records => false,
    })
}

/// True if a line begins and ends as a JSON object.
fn is_object(line: &[u8]) -> bool {
    line.starts_with(b"{") && line.ends_with(b"}")
}

/// The bytes after a byte order mark and white space.
fn text_of(start: &[u8]) -> &[u8] {
    start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start()
}

/// True if a file begins as a page of HTML, which a web server sends for a folder, a login or an error.
fn is_html(start: &[u8]) -> bool {
    let text = text_of(start);
    [&b"<!doctype html"[..], b"<html"]
        .iter()
        .any(|mark| text.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark)))
}

/// The container according to the first bytes of a file, and whether it is read from its end.
fn by_content(start: &[u8]) -> (Container, bool) {
    let text = text_of(start);
    if start.starts_with(PARQUET_MAGIC) {
        (Container::Parquet, true)
    } else if start.starts_with(FILE_MAGIC) {
        (Container::Arrow, true)
    } else if start.starts_with(STREAM_MAGIC) {
        (Container::Arrow, false)
    } else if start.starts_with(CBOR_MAGIC)
        || start.first().is_some_and(|byte| CBOR_MAPS.contains(byte))
    {
        (Container::Cbor, false)
    } else if text.starts_with(b"[") {
        (Container::Json, false)
    } else if text.is_empty() || text.starts_with(b"{") || !is_text(text) {
        (Container::Lines, false)
    } else {
        (table(text).unwrap_or(Container::Text), false)
    }
}

/// True if the bytes are text without a JSON object on a line of its own.
fn is_text(start: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(start) {
        Ok(_) => true,
        // The last character may continue after the bytes read.
        Err(error) => error.error_len().is_none(),
    };
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    is_utf8
        && start.iter().all(|byte| *byte >= b' ' || IN_TEXTS.contains(byte))
        && !lines.any(is_object)
}

/// The kind of a text table whose first line names the columns of a shape.
fn table(text: &[u8]) -> Option<Container> {
    let header = text.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
    let header = std::str::from_utf8(header).ok()?;
    [(',', Container::Csv), ('\t', Container::Tsv)].into_iter().find_map(|(between, container)| {
        let names: Vec<&str> =
            header.split(between).map(|name| name.trim().trim_matches('"')).collect();
        (names.len() > 1 && show_shape(&names)).then_some(container)
    })
}

/// True if these column names are those of a shape.
fn show_shape(names: &[&str]) -> bool {
    let plain = [ShapeName::Tokens, ShapeName::Prompt];
    let shapes = ShapeName::ALL.iter().filter(|shape| !plain.contains(shape));
    let has = |fields: &&[&str]| fields.iter().any(|field| names.contains(field));
    shapes.into_iter().any(|shape| shape.entry().required.iter().all(|it| has(&it.fields)))
}
