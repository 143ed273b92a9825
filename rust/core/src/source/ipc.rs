//! Arrow IPC: files, and streams such as `datasets` saves.

use std::fs::File;
use std::io::BufReader;

use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};

use super::SourceFile;
use super::block::Reader;
use super::input::Input;
use super::rows::RowReader;
use crate::error::{Error, Result};

/// What files begin with, and streams do not.
pub(super) const FILE_MAGIC: &[u8] = b"ARROW1";

/// The rows of an Arrow IPC file or stream; one that is neither is broken before its first row.
pub(super) fn open(source: &SourceFile) -> Result<Box<dyn Reader>> {
    let compression = source.format.compression;
    let mut input = Input::open(&source.path, compression)?;
    if compression.is_none() && input.peek(FILE_MAGIC.len())? == FILE_MAGIC {
        return file(source);
    }
    stream(source, input)
}

/// A file, whose batches are found by its footer.
fn file(source: &SourceFile) -> Result<Box<dyn Reader>> {
    let file = File::open(&source.path).map_err(Error::io(&*source.path))?;
    let size = source.size;
    let mut read = 0;
    let mut opened = FileReader::try_new(BufReader::new(file), None);
    let reader = RowReader::start(&source.path, move || {
        let reader = match &mut opened {
            Ok(reader) => reader,
            Err(error) => return Some(Err(error.to_string())),
        };
        let batch = reader.next()?;
        read += 1;
        let position = u128::from(size) * read / (reader.num_batches().max(1) as u128);
        let position = u64::try_from(position).unwrap_or(size);
        Some(batch.map(|batch| (batch, position)).map_err(|error| error.to_string()))
    })?;
    Ok(Box::new(reader))
}

/// A stream, which is opened where it is read: its first bytes may have to be decompressed.
fn stream(source: &SourceFile, input: Input) -> Result<Box<dyn Reader>> {
    let mut input = Some(input);
    let mut opened: Option<std::result::Result<StreamReader<Input>, ArrowError>> = None;
    let reader = RowReader::start(&source.path, move || {
        if let Some(input) = input.take() {
            opened = Some(StreamReader::try_new(input, None));
        }
        let reader = match opened.as_mut()? {
            Ok(reader) => reader,
            Err(error) => return Some(Err(error.to_string())),
        };
        let batch = reader.next();
        if let Some(damage) = reader.get_mut().take_damage() {
            return Some(Err(damage));
        }
        let position = reader.get_ref().position();
        Some(batch?.map(|batch| (batch, position)).map_err(|error| error.to_string()))
    })?;
    Ok(Box::new(reader))
}
