//! [`Shard`]: one file of rows, hashed as it is written.

use std::fs;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::manifest::File;
use super::{arrow as ipc, jsonl, msgpack, parquet};
use crate::behind::{Afterwards, Behind};
use crate::config::{Coding, Format};
use crate::error::{Error, Result};

/// What is written at once: far above a page, far below what memory would notice.
const BUFFER: usize = 1 << 20;

/// A file of rows that is being written.
pub(super) struct Shard {
    path: PathBuf,
    rows: Rows,
    count: u64,
}

/// A file of rows in one of the formats.
enum Rows {
    Arrow(ipc::Rows),
    Jsonl(jsonl::Rows),
    Msgpack(msgpack::Rows),
    MsgpackArrays(msgpack::Rows),
    Parquet(parquet::Rows),
}

impl Shard {
    /// Creates the file at `path`.
    pub(super) fn create(path: PathBuf, coding: Coding, schema: &SchemaRef) -> Result<Self> {
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).map_err(Error::io(&path))?;
        let file = BufWriter::with_capacity(BUFFER, Hashed::new(file));
        let rows = match coding.format {
            Format::Arrow => ipc::Rows::new(file, schema, coding.compression).map(Rows::Arrow),
            Format::Jsonl => Ok(Rows::Jsonl(jsonl::Rows::new(file))),
            Format::Msgpack => Ok(Rows::Msgpack(msgpack::Rows::maps(file))),
            Format::MsgpackArrays => {
                msgpack::Rows::arrays(file).map(Rows::MsgpackArrays).map_err(ArrowError::from)
            }
            Format::Parquet => {
                parquet::Rows::new(file, schema, coding.compression).map(Rows::Parquet)
            }
        };
        let rows = rows.map_err(|error| about(&path, error))?;
        Ok(Self { path, rows, count: 0 })
    }

    /// Appends rows.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.rows {
            Rows::Arrow(rows) => rows.write(batch),
            Rows::Jsonl(rows) => rows.write(batch).map_err(ArrowError::from),
            Rows::Msgpack(rows) | Rows::MsgpackArrays(rows) => {
                rows.write(batch).map_err(ArrowError::from)
            }
            Rows::Parquet(rows) => rows.write(batch),
        };
        self.count += batch.num_rows() as u64;
        written.map_err(|error| about(&self.path, error))
    }

    /// Writes what is left to the disk, and tells what the file became under the name `name`.
    pub(super) fn close(self, name: String) -> Result<File> {
        let counted = matches!(self.rows, Rows::MsgpackArrays(_));
        let file = match self.rows {
            Rows::Arrow(rows) => rows.finish(),
            Rows::Jsonl(rows) => Ok(rows.finish()),
            Rows::Msgpack(rows) | Rows::MsgpackArrays(rows) => Ok(rows.finish()),
            Rows::Parquet(rows) => rows.finish(),
        };
        let file =
            file.and_then(|file| file.into_inner().map_err(|error| error.into_error().into()));
        let mut file = file.map_err(|error| about(&self.path, error))?;
        if counted {
            let rows = u32::try_from(self.count).map_err(|_| {
                Error::option("shard_size", "is so large that a file has more than 2^32 rows")
            })?;
            let written = file.overwrite(msgpack::LENGTH.start, &rows.to_be_bytes());
            written.map_err(Error::io(&self.path))?;
        }
        file.behind.finish().and_then(|()| file.file.sync_all()).map_err(Error::io(&self.path))?;
        let blake3 = file.hasher.finalize().to_hex().to_string();
        Ok(File { name, rows: self.count, bytes: file.bytes, blake3 })
    }
}

/// What goes wrong on the way to a file is about that file.
fn about(path: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) => Error::io(path)(source),
        other => other.into(),
    }
}

/// Where the formats write to.
pub(super) type Sink = BufWriter<Hashed>;

/// A file, with the hash and the number of the bytes written.
pub(super) struct Hashed {
    file: fs::File,
    hasher: Box<blake3::Hasher>,
    bytes: u64,
    behind: Behind,
}

impl Hashed {
    fn new(file: fs::File) -> Self {
        Self { file, hasher: Box::default(), bytes: 0, behind: Behind::new(0, Afterwards::Release) }
    }

    /// Puts `bytes` in the place of others, and takes the hash anew.
    fn overwrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.file.rewind()?;
        self.hasher.reset();
        self.hasher.update_reader(&self.file)?;
        Ok(())
    }
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        self.behind.wrote(&self.file, self.bytes)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
