//! [`IpcFile`]: an Arrow IPC file, whose messages are found by the footer.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::vec;

use arrow::array::RecordBatch;
use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{self, root_as_footer};
use serde::{Deserialize, Serialize};

use super::damage::{FILE_MAGIC, IpcDamage};
use super::ipc_message::{IpcMessage, MessageReader, NextMessage};
use super::ipc_table::IpcTable;
use crate::source::formats::row_reader::{ColumnChoice, short_message};
use crate::storage::{Location, OpenFile};

/// Bytes before the first message: the magic, padded to a multiple of eight.
const BEGINNING: u64 = 8;

/// Bytes after the footer: its length, and the magic again.
const ENDING: usize = 10;

/// The most bytes of padding between two messages: a cache line, and the end mark of a stream.
const FILLING: u64 = 64 + 8;

/// The message for files joined with `cat`.
const CONCATENATED: &str = "it holds bytes that the list at its end does not name; if files were put together, take them \
     apart, or write them as streams";

/// An Arrow IPC file, read on the thread of its rows.
pub(super) struct IpcFile {
    location: Location,
    size: u64,
    columns: Option<ColumnChoice>,
    opened: Option<OpenedIpc>,
}

/// A file whose footer has been read.
pub(super) struct OpenedIpc {
    pub(super) file: BufReader<OpenFile>,
    table: IpcTable,
    blocks: vec::IntoIter<BatchPlace>,
    batches: u64,
    read: u64,
}

/// The place of a message in a file: of a record batch, or of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BatchPlace {
    pub(super) start: u64,
    pub(super) length: u64,
}

impl BatchPlace {
    /// The bytes of the message.
    pub(crate) fn bytes(self) -> u64 {
        self.length
    }
}

impl IpcFile {
    pub(super) fn new(location: &Location, size: u64, columns: Option<ColumnChoice>) -> Self {
        Self { location: location.clone(), size, columns, opened: None }
    }

    /// The next rows, and the bytes of the file used so far.
    pub(super) fn next_batch(&mut self) -> Result<Option<(RecordBatch, u64)>, IpcDamage> {
        let opened = if let Some(opened) = &mut self.opened {
            opened
        } else {
            let opened = OpenedIpc::new(&self.location, self.size, self.columns.take())?;
            self.opened.insert(opened)
        };
        for block in opened.blocks.by_ref() {
            let message = message_at(&mut opened.file, block)?;
            if let Some(batch) = opened.table.read(&message)? {
                opened.read += 1;
                let position = u128::from(self.size) * u128::from(opened.read)
                    / u128::from(opened.batches.max(1));
                return Ok(Some((batch, u64::try_from(position).unwrap_or(self.size))));
            }
        }
        Ok(None)
    }
}

impl OpenedIpc {
    /// Opens a file, and checks that the footer names all of it.
    pub(super) fn new(
        location: &Location,
        size: u64,
        columns: Option<ColumnChoice>,
    ) -> Result<Self, IpcDamage> {
        let (mut opened, footer_at) = Self::unchecked(location, size, columns)?;
        check_all_is_named(&mut opened.file, opened.blocks.as_slice().to_vec(), footer_at)?;
        Ok(opened)
    }

    /// Opens a file. Returns it with the place of the footer.
    pub(super) fn unchecked(
        location: &Location,
        size: u64,
        columns: Option<ColumnChoice>,
    ) -> Result<(Self, u64), IpcDamage> {
        let mut file = BufReader::new(location.open().map_err(short_message)?);
        let mut ending = [0; ENDING];
        let end = size.checked_sub(ENDING as u64).ok_or("the file is too short")?;
        file.seek(SeekFrom::Start(end))
            .and_then(|_| file.read_exact(&mut ending))
            .map_err(short_message)?;
        let length = read_footer_length(ending).map_err(short_message)?;
        let footer_at = end.checked_sub(length as u64).filter(|at| *at >= BEGINNING);
        let footer_at = footer_at.ok_or("the list at its end is longer than the file")?;
        let mut footer = vec![0; length];
        file.seek(SeekFrom::Start(footer_at))
            .and_then(|_| file.read_exact(&mut footer))
            .map_err(short_message)?;
        let footer = root_as_footer(&footer)
            .map_err(|error| format!("the list at its end is none: {}", short_message(error)))?;
        let schema = footer.schema().ok_or("the list at its end names no columns")?;
        let dictionaries = blocks_of(footer.dictionaries().into_iter().flatten(), footer_at)?;
        let batches = blocks_of(footer.recordBatches().into_iter().flatten(), footer_at)?;
        let count = batches.len() as u64;
        let blocks: Vec<BatchPlace> = dictionaries.into_iter().chain(batches).collect();
        let opened = Self {
            file,
            table: IpcTable::of(schema)?.choosing(columns),
            blocks: blocks.into_iter(),
            batches: count,
            read: 0,
        };
        Ok((opened, footer_at))
    }

    /// The places of all batches, if none was read.
    pub(super) fn batches(&self) -> Vec<BatchPlace> {
        let dictionaries = self.blocks.len() as u64 - self.batches;
        let dictionaries = usize::try_from(dictionaries).unwrap_or(usize::MAX);
        self.blocks.as_slice().iter().skip(dictionaries).copied().collect()
    }

    /// The rows of one batch, if none was read before. The dictionaries are read first.
    pub(super) fn read_single_batch(
        mut self,
        place: BatchPlace,
        columns: Option<&[String]>,
    ) -> Result<Option<RecordBatch>, IpcDamage> {
        self.table = self.table.with_columns(columns);
        let dictionaries = self.blocks.len() - self.batches().len();
        for block in self.blocks.take(dictionaries).chain([place]) {
            let message = message_at(&mut self.file, block)?;
            if let Some(batch) = self.table.read(&message)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// The places of the messages in a list of the footer.
fn blocks_of<'a>(
    list: impl Iterator<Item = &'a ipc::Block>,
    footer_at: u64,
) -> Result<Vec<BatchPlace>, IpcDamage> {
    let block = |block: &ipc::Block| {
        let start = u64::try_from(block.offset()).ok().filter(|start| *start >= BEGINNING)?;
        let metadata = u64::try_from(block.metaDataLength()).ok()?;
        let length = metadata.checked_add(u64::try_from(block.bodyLength()).ok()?)?;
        (start.checked_add(length)? <= footer_at).then_some(BatchPlace { start, length })
    };
    let refuse = || "the list at its end names bytes that are not there".to_owned();
    list.map(|it| block(it).ok_or_else(refuse)).collect()
}

/// The whole message in a block.
pub(super) fn message_at(
    file: &mut BufReader<OpenFile>,
    block: BatchPlace,
) -> Result<IpcMessage, IpcDamage> {
    let (message, length) = read_at(file, block.start, block.length)?;
    if length == block.length {
        return Ok(message);
    }
    Err(format!("the message at byte {} is not as long as the list at the end says", block.start))
}

/// The message at offset `start`, of at most `most` bytes, and its length.
fn read_at(
    file: &mut BufReader<OpenFile>,
    start: u64,
    most: u64,
) -> Result<(IpcMessage, u64), IpcDamage> {
    file.seek(SeekFrom::Start(start)).map_err(short_message)?;
    let mut frames = MessageReader::new(file, Some(most), start);
    match frames.next()? {
        Some(NextMessage::Message(message)) => Ok((message, frames.at() - start)),
        _ => Err(format!("no message begins at byte {start}")),
    }
}

/// Fails if the file holds bytes that its footer does not list, or lists twice.
///
/// In files that were joined with `cat`, the footer of the last one lists bytes of the first.
fn check_all_is_named(
    file: &mut BufReader<OpenFile>,
    mut blocks: Vec<BatchPlace>,
    footer_at: u64,
) -> Result<(), IpcDamage> {
    blocks.sort_unstable();
    blocks.push(BatchPlace { start: footer_at, length: 0 });
    // The schema lies before the first message, and is not listed.
    let mut end = blocks[0].start;
    if holds_magic(file, end)? {
        return Err(CONCATENATED.to_owned());
    }
    for BatchPlace { start, length } in blocks {
        let between = start.checked_sub(end);
        let between =
            between.ok_or_else(|| format!("the list at its end names byte {start} twice"))?;
        if between > FILLING || !is_filling(file, end, between)? {
            return Err(CONCATENATED.to_owned());
        }
        end = start + length;
    }
    Ok(())
}

/// True if a file has the magic of another one before byte `end`.
fn holds_magic(file: &mut BufReader<OpenFile>, end: u64) -> Result<bool, IpcDamage> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(BEGINNING)).map_err(short_message)?;
    file.take(end - BEGINNING).read_to_end(&mut bytes).map_err(short_message)?;
    Ok(memchr::memmem::find(&bytes, FILE_MAGIC).is_some())
}

/// True if bytes are padding: zeros, or the end mark of a stream.
fn is_filling(file: &mut BufReader<OpenFile>, at: u64, length: u64) -> Result<bool, IpcDamage> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).map_err(short_message)?;
    file.take(length).read_to_end(&mut bytes).map_err(short_message)?;
    Ok(bytes.iter().all(|byte| matches!(byte, 0 | 0xff)))
}
