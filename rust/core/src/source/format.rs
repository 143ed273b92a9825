//! [`Format`]: what a file holds and what is wrapped around it, by its name, or by its content where that does not say.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use super::blocks::BYTE_ORDER_MARK;
use super::compression::Compression;
use super::input::Input;
use super::ipc::FILE_MAGIC;
use crate::error::{Error, Result};

/// Bytes looked at to recognise a file.
const PEEKED: usize = 4 << 10;

/// What Parquet files begin with.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// What CBOR files may begin with, to say what they are.
const CBOR_MAGIC: &[u8] = b"\xd9\xd9\xf7";

/// How CBOR maps begin, and no text in UTF-8 does.
const CBOR_MAPS: RangeInclusive<u8> = 0xa0..=0xbf;

/// What Arrow IPC streams begin with.
const STREAM_MAGIC: &[u8] = b"\xff\xff\xff\xff";

/// How records are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// A JSON value a line.
    Lines,
    /// A JSON array, or a JSON value a line.
    Json,
    /// A table in text, its cells separated by commas.
    Csv,
    /// A table in text, its cells separated by tabs.
    Tsv,
    /// A text a file, or several with a separator between them.
    Text,
    /// CBOR items, one after another.
    Cbor,
    /// A Parquet file.
    Parquet,
    /// An Arrow IPC file or stream.
    Arrow,
}

/// Each container with the endings of its files, the usual one first.
const ENDINGS: [(Container, &[&str]); 8] = [
    (Container::Lines, &["jsonl", "ndjson"]),
    (Container::Json, &["json"]),
    (Container::Csv, &["csv"]),
    (Container::Tsv, &["tsv"]),
    (Container::Text, &["txt", "md"]),
    (Container::Cbor, &["cbor", "cborl", "cborseq"]),
    (Container::Parquet, &["parquet"]),
    (Container::Arrow, &["arrow", "feather", "arrows", "ipc"]),
];

/// What a file holds and what is wrapped around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// How records are written down.
    pub container: Container,
    /// What is wrapped around that.
    pub compression: Option<Compression>,
}

impl fmt::Display for Format {
    /// As the endings of a file's name: `jsonl.gz`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = ENDINGS.iter().find(|(container, _)| *container == self.container);
        f.write_str(ending.map_or("", |(_, endings)| endings[0]))?;
        self.compression.map_or(Ok(()), |compression| write!(f, ".{}", compression.ending()))
    }
}

/// What a file's name says of it.
pub(super) fn by_name(path: &Path) -> (Option<Container>, Option<Compression>) {
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

/// The format of a file: what its name says, and where that says nothing, what it begins with.
///
/// # Errors
///
/// [`Error::Io`] for a file that cannot be read, [`Error::Option`] for a compressed file of a container that is
/// read from its end.
pub(super) fn recognise(path: &Arc<Path>) -> Result<Format> {
    let (container, mut compression) = by_name(path);
    if compression.is_none() && !matches!(container, Some(Container::Parquet | Container::Arrow)) {
        let mut start = Vec::new();
        let file = File::open(path).map_err(Error::io(&**path))?;
        file.take(PEEKED as u64).read_to_end(&mut start).map_err(Error::io(&**path))?;
        compression = Compression::by_content(&start);
    }
    let (container, at_end) = match container {
        Some(container) => (container, container == Container::Parquet),
        None => by_content(Input::open(path, compression)?.peek(PEEKED)?),
    };
    if at_end && let Some(compression) = compression {
        let reason = format!(
            "`{}` is compressed with {}, but is of a format that is read from its end; decompress it",
            path.display(),
            compression.ending()
        );
        return Err(Error::option("files", reason));
    }
    Ok(Format { container, compression })
}

/// What the first bytes of a file say of it, and whether it is read from its end.
fn by_content(start: &[u8]) -> (Container, bool) {
    let text = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
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
    } else {
        (Container::Lines, false)
    }
}
