//! Arrow IPC: files, and streams such as `datasets` saves.
//!
//! Both are messages, one after another. [`message`] reads them and checks that none refers to bytes that do
//! not exist. [`table`] makes rows from them. A file begins with [`damage::FILE_MAGIC`] and ends with a list
//! of its messages ([`footer`]). A batch of either can be read alone ([`extent`]).

pub(crate) mod damage;
mod extent;
mod footer;
mod message;
mod table;

use super::rows::{ColumnChoice, RowReader, Rows};
use crate::error::Result;
use crate::source::block::Reader;
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::util::control::Control;
use damage::{Damage, FILE_MAGIC};
use footer::IpcFile;
use message::{MessageReader, NextMessage};
use table::Table;

pub(crate) use extent::{batches, open_batch};
pub(crate) use footer::BatchPlace;

/// The rows of an Arrow IPC file or stream. Another file is damaged before its first row.
pub(crate) fn open(
    source: &SourceFile,
    columns: Option<ColumnChoice>,
    control: &Control,
) -> Result<Box<dyn Reader>> {
    let compression = source.format.compression;
    let mut input = InputBytes::open(&source.location, compression)?;
    let is_file = compression.is_none() && input.peek(FILE_MAGIC.len(), control)? == FILE_MAGIC;
    let reader = if is_file {
        let mut file = IpcFile::new(&source.location, source.size, columns);
        RowReader::start(&source.path, move || file.next_batch().transpose())?
    } else {
        let left = compression.is_none().then_some(source.size);
        let mut stream =
            Stream { frames: MessageReader::new(input, left, 0), table: None, columns };
        RowReader::start(&source.path, move || stream.next_batch().transpose())?
    };
    Ok(Box::new(reader))
}

/// One stream, or several with the same columns, one after another.
struct Stream {
    frames: MessageReader<InputBytes>,
    /// The columns of the current stream; `None` before the first stream.
    table: Option<Table>,
    columns: Option<ColumnChoice>,
}

impl Stream {
    /// The next rows, and the bytes of the file used so far.
    fn next_batch(&mut self) -> std::result::Result<Option<Rows>, Damage> {
        let next = self.next();
        // The damage of the input explains more than the missing bytes after it.
        self.frames.input_mut().take_damage().map_or(next, Err)
    }

    fn next(&mut self) -> std::result::Result<Option<Rows>, Damage> {
        loop {
            match self.frames.next()? {
                None if self.table.is_some() => return Ok(None),
                None => return Err("the file ends before its first message".to_owned()),
                Some(NextMessage::End) => {}
                Some(NextMessage::Message(message)) if message.is_schema() => {
                    let table = Table::new(&message)?;
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
