//! Record batches of an Arrow IPC file or stream that are read alone, without those before them.

use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow::array::RecordBatch;
use arrow::ipc::{MessageHeader, root_as_message};

use super::damage::{FILE_MAGIC, IpcDamage};
use super::footer::{BatchPlace, OpenedIpc, message_at};
use super::ipc_message::{MessageReader, NextMessage};
use super::ipc_table::IpcTable;
use crate::error::{Error, Result};
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::discovery::found::SourceFile;
use crate::source::formats::row_reader::{BatchSlices, short_message};
use crate::storage::OpenFile;
use crate::util::control::Control;

/// The bytes before the metadata of a message: the mark and the length.
const START: usize = 8;

/// The mark before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The most bytes of the metadata of one message. Longer ones are read as a whole file, which checks them.
const METADATA: usize = 16 << 20;

/// The record batches of a file with the rows of each, by reading their metadata; `None` if it has none that can be read
/// alone, or is damaged, which reading it reports later.
pub(crate) fn batches(source: &SourceFile) -> Option<Vec<(BatchPlace, u64)>> {
    if source.format.compression.is_some() {
        return None;
    }
    let found = if is_file(source).ok()? { of_file(source) } else { of_stream(source) };
    found.ok()?.filter(|places| !places.is_empty())
}

/// True if a file has a footer. Otherwise it is a stream.
fn is_file(source: &SourceFile) -> Result<bool> {
    let start = source.location.start(FILE_MAGIC.len()).map_err(Error::io(&*source.path))?;
    Ok(start.starts_with(FILE_MAGIC))
}

/// The batches that a footer names.
fn of_file(source: &SourceFile) -> std::result::Result<Option<Vec<(BatchPlace, u64)>>, IpcDamage> {
    let mut opened = OpenedIpc::new(&source.location, source.size, None)?;
    let places = opened.batches();
    let mut found = Vec::with_capacity(places.len());
    for place in places {
        match metadata_at(&mut opened.file, place.start)? {
            Some(IpcMetadata { rows: Some(rows), .. }) => found.push((place, rows)),
            _ => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// The batches of one stream. Streams with dictionaries, and several streams in one file, are read from their beginning.
fn of_stream(
    source: &SourceFile,
) -> std::result::Result<Option<Vec<(BatchPlace, u64)>>, IpcDamage> {
    let mut file = BufReader::new(source.location.open().map_err(short_message)?);
    let mut found = Vec::new();
    let mut at = 0;
    while at < source.size {
        let Some(metadata) = metadata_at(&mut file, at)? else { return Ok(None) };
        let end = at.checked_add(metadata.length).filter(|end| *end <= source.size);
        let Some(end) = end else { return Ok(None) };
        match (metadata.kind, metadata.rows) {
            (MessageHeader::Schema, _) if at == 0 => {}
            (MessageHeader::RecordBatch, Some(rows)) if at > 0 => {
                found.push((BatchPlace { start: at, length: end - at }, rows));
            }
            (MessageHeader::NONE, _) if end == source.size => {}
            _ => return Ok(None),
        }
        at = end;
    }
    Ok(Some(found))
}

/// The description of a message.
struct IpcMetadata {
    kind: MessageHeader,
    /// The rows, if it is a batch.
    rows: Option<u64>,
    /// The bytes of the message.
    length: u64,
}

/// The description of the message at byte `at`; `None` for one that is not written as messages are since 2019.
fn metadata_at(
    file: &mut BufReader<OpenFile>,
    at: u64,
) -> std::result::Result<Option<IpcMetadata>, IpcDamage> {
    let mut start = [0; START];
    file.seek(SeekFrom::Start(at))
        .and_then(|_| file.read_exact(&mut start))
        .map_err(short_message)?;
    let (mark, length) = start.split_at(CONTINUATION.len());
    let length = length.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)).unwrap_or_default();
    let Some(length) = usize::try_from(length).ok().filter(|it| *it <= METADATA) else {
        return Ok(None);
    };
    if mark != CONTINUATION {
        return Ok(None);
    }
    if length == 0 {
        let (kind, length) = (MessageHeader::NONE, START as u64);
        return Ok(Some(IpcMetadata { kind, rows: None, length }));
    }
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).map_err(short_message)?;
    let message = root_as_message(&bytes).map_err(short_message)?;
    let Ok(body) = u64::try_from(message.bodyLength()) else { return Ok(None) };
    let rows = message.header_as_record_batch().map(|batch| batch.length());
    let Some(length) = body.checked_add((START + length) as u64) else { return Ok(None) };
    let rows = rows.and_then(|rows| u64::try_from(rows).ok());
    Ok(Some(IpcMetadata { kind: message.header_type(), rows, length }))
}

/// The rows of one batch, of these columns or all. `first_row` is the number of its first row.
pub(crate) fn open_batch(
    source: &SourceFile,
    place: BatchPlace,
    first_row: u64,
    columns: Option<&[String]>,
) -> Result<Box<dyn BlockReader>> {
    let is_file = is_file(source)?;
    let read = || {
        if is_file {
            let (opened, _) = OpenedIpc::unchecked(&source.location, source.size, None)?;
            return opened.read_single_batch(place, columns);
        }
        let mut file = BufReader::new(source.location.open().map_err(short_message)?);
        let first = MessageReader::new(&mut file, Some(source.size), 0).next()?;
        let Some(NextMessage::Message(schema)) = first else {
            return Err("the first message names no columns".to_owned());
        };
        let message = message_at(&mut file, place)?;
        IpcTable::new(&schema)?.with_columns(columns).read(&message)
    };
    let rows = read().and_then(|batch| batch.ok_or_else(|| "a batch is missing".to_owned()));
    Ok(Box::new(BatchReader {
        rows: Some(rows.map(BatchSlices::new)),
        next_row: first_row,
        taken: 0,
    }))
}

/// The rows of one batch, or the reason that there are none.
struct BatchReader {
    rows: Option<std::result::Result<BatchSlices, IpcDamage>>,
    next_row: u64,
    /// The memory of the last rows.
    taken: u64,
}

impl BlockReader for BatchReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        control.tick()?;
        let part: RecordBatch = match &mut self.rows {
            None => return Ok(None),
            Some(Ok(parts)) => match parts.next_part() {
                Some(part) => part,
                None => return Ok(None),
            },
            Some(Err(message)) => {
                let (line, message) = (self.next_row, message.clone());
                self.rows = None;
                return Ok(Some(BlockContent::Broken { line, reason: Reason::Damaged, message }));
            }
        };
        let first_row = self.next_row;
        self.next_row += part.num_rows() as u64;
        self.taken = part.get_array_memory_size() as u64;
        Ok(Some(BlockContent::Rows { first_row, batch: part }))
    }

    fn position(&self) -> u64 {
        self.taken
    }
}
