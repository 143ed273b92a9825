//! Arrow IPC: files, and streams such as `datasets` saves.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};

use super::SourceFile;
use super::block::Reader;
use super::input::Input;
use super::rows::{Columns, RowReader};
use crate::error::{Error, Result};

/// What files begin with, and streams do not.
pub(super) const FILE_MAGIC: &[u8] = b"ARROW1";

/// Bytes of a stream that are kept at most to begin it again: a first batch is far below, unless it is all there is.
const KEPT: usize = 64 << 20;

/// The rows of an Arrow IPC file or stream; one that is neither is broken before its first row.
pub(super) fn open(source: &SourceFile, columns: Option<Columns>) -> Result<Box<dyn Reader>> {
    let compression = source.format.compression;
    let mut input = Input::open(&source.path, compression)?;
    if compression.is_none() && input.peek(FILE_MAGIC.len())? == FILE_MAGIC {
        return file(source, columns);
    }
    stream(source, input, columns)
}

/// A file, whose batches are found by its footer.
fn file(source: &SourceFile, mut columns: Option<Columns>) -> Result<Box<dyn Reader>> {
    let open = || File::open(&source.path).map_err(Error::io(&*source.path));
    let (file, mut again) = (open()?, Some(BufReader::new(open()?)));
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
        let batches = reader.num_batches();
        let position = u128::from(size) * read / (batches.max(1) as u128);
        let position = u64::try_from(position).unwrap_or(size);
        if let (Ok(batch), Some(columns), Some(file)) = (&batch, columns.take(), again.take())
            && batches > 1
            && let Some(needed) = needed(batch, &columns)
        {
            // The first batch is read already.
            let reader = FileReader::try_new(file, Some(needed));
            opened = reader.and_then(|mut reader| reader.set_index(1).map(|()| reader));
        }
        Some(batch.map(|batch| (batch, position)).map_err(|error| error.to_string()))
    })?;
    Ok(Box::new(reader))
}

/// A stream, which is opened where it is read: its first bytes may have to be decompressed.
fn stream(
    source: &SourceFile,
    input: Input,
    mut columns: Option<Columns>,
) -> Result<Box<dyn Reader>> {
    let mut tape = Some(Tape::new(input));
    let mut opened: Option<Opened> = None;
    let reader = RowReader::start(&source.path, move || {
        if let Some(tape) = tape.take() {
            opened = Some(StreamReader::try_new(tape, None));
        }
        let reader = match opened.as_mut()? {
            Ok(reader) => reader,
            Err(error) => return Some(Err(error.to_string())),
        };
        let batch = reader.next();
        if let Some(damage) = reader.get_mut().input.as_mut().and_then(Input::take_damage) {
            return Some(Err(damage));
        }
        let position = reader.get_ref().input.as_ref().map_or(0, Input::position);
        let batch = batch?;
        let kept = reader.get_mut().kept.take();
        if let (Ok(batch), Some(columns), Some(kept)) = (&batch, columns.take(), kept)
            && let Some(needed) = needed(batch, &columns)
        {
            let tape =
                Tape { input: reader.get_mut().input.take(), kept: None, again: Cursor::new(kept) };
            opened = Some(begun_again(tape, needed));
        }
        Some(batch.map(|batch| (batch, position)).map_err(|error| error.to_string()))
    })?;
    Ok(Box::new(reader))
}

/// A stream that is read, or why it is none.
type Opened = std::result::Result<StreamReader<Tape>, ArrowError>;

/// A stream of which these columns are read, behind its first batch.
fn begun_again(tape: Tape, columns: Vec<usize>) -> Opened {
    let mut reader = StreamReader::try_new(tape, Some(columns))?;
    reader.next().transpose()?;
    Ok(reader)
}

/// The bytes of a stream, whose beginning is kept to be read once more: what a reader reads of each batch is settled
/// when it is made, and which columns are needed is known by the first batch.
struct Tape {
    input: Option<Input>,
    /// What was read so far, unless it is too much.
    kept: Option<Vec<u8>>,
    /// What is read once more, before all else.
    again: Cursor<Vec<u8>>,
}

impl Tape {
    fn new(input: Input) -> Self {
        Self { input: Some(input), kept: Some(Vec::new()), again: Cursor::default() }
    }
}

impl Read for Tape {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.again.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        // What was read once more is not needed again.
        self.again = Cursor::default();
        let Some(input) = &mut self.input else { return Ok(0) };
        let read = input.read(buffer)?;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&buffer[..read]);
        }
        self.kept.take_if(|kept| kept.len() > KEPT);
        Ok(read)
    }
}

/// The places of the columns that are needed of batches like this, unless that is all of them.
fn needed(batch: &RecordBatch, columns: &Columns) -> Option<Vec<usize>> {
    let names = columns(batch)?;
    let fields = batch.schema_ref().fields().iter().enumerate();
    let places: Vec<usize> =
        fields.filter(|(_, field)| names.contains(field.name())).map(|(at, _)| at).collect();
    (places.len() < batch.num_columns()).then_some(places)
}
