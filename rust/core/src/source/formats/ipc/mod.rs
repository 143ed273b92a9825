//! Arrow IPC: files, and streams such as `datasets` saves.
//!
//! Both are messages, one after another. [`ipc_message`] reads them and checks that none refers to bytes that do
//! not exist. [`ipc_table`] makes rows from them. A file begins with [`damage::FILE_MAGIC`] and ends with a list
//! of its messages ([`footer`]). A batch of either can be read alone ([`ipc_extent`]).

pub(crate) mod damage;
mod footer;
mod ipc_extent;
mod ipc_message;
mod ipc_table;

use super::row_reader::{ColumnChoice, ReadRows, RowReader};
use crate::error::Result;
use crate::source::block::BlockReader;
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::util::control::Control;
use damage::{FILE_MAGIC, IpcDamage};
use footer::IpcFile;
use ipc_message::{MessageReader, NextMessage};
use ipc_table::IpcTable;

pub(crate) use footer::BatchPlace;
pub(crate) use ipc_extent::{batches, open_batch};

/// The rows of an Arrow IPC file or stream. Another file is damaged before its first row.
pub(crate) fn open(
    source: &SourceFile,
    columns: Option<ColumnChoice>,
    control: &Control,
) -> Result<Box<dyn BlockReader>> {
    let compression = source.format.compression;
    let mut input = InputBytes::open(&source.location, compression)?;
    let is_file = compression.is_none() && input.peek(FILE_MAGIC.len(), control)? == FILE_MAGIC;
    let reader = if is_file {
        let mut file = IpcFile::new(&source.location, source.size, columns);
        RowReader::start(&source.path, move || file.next_batch().transpose())?
    } else {
        let left = compression.is_none().then_some(source.size);
        let mut stream =
            IpcStream { frames: MessageReader::new(input, left, 0), table: None, columns };
        RowReader::start(&source.path, move || stream.next_batch().transpose())?
    };
    Ok(Box::new(reader))
}

/// One stream, or several with the same columns, one after another.
struct IpcStream {
    frames: MessageReader<InputBytes>,
    /// The columns of the current stream; `None` before the first stream.
    table: Option<IpcTable>,
    columns: Option<ColumnChoice>,
}

impl IpcStream {
    /// The next rows, and the bytes of the file used so far.
    fn next_batch(&mut self) -> std::result::Result<Option<ReadRows>, IpcDamage> {
        let next = self.next();
        // The damage of the input explains more than the missing bytes after it.
        self.frames.input_mut().take_damage().map_or(next, Err)
    }

    fn next(&mut self) -> std::result::Result<Option<ReadRows>, IpcDamage> {
        loop {
            match self.frames.next()? {
                None if self.table.is_some() => return Ok(None),
                None => return Err("the file ends before its first message".to_owned()),
                Some(NextMessage::End) => {}
                Some(NextMessage::Message(message)) if message.is_schema() => {
                    let table = IpcTable::new(&message)?;
                    self.table = Some(match self.table.take() {
                        None => table.choosing(self.columns.take()),
                        Some(before) => before.followed_by(&table)?,
                    });
                }
                Some(NextMessage::Message(message)) => {
                    let Some(table) = &mut self.table else {
                        return Err("the first message names no columns".to_owned());
                    };
                    if let Some(batch) = table.read(&message)? {
                        return Ok(Some((batch, self.frames.input_mut().position())));
                    }
                }
            }
        }
    }
}
