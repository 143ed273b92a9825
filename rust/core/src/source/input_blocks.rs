//! [`InputBlocks`]: the blocks of a run, of all records or of a sample.

use arrow::array::RecordBatch;

use super::block::Block;
use super::unread_block::UnreadBlock;
use crate::config::{Reading, Source};
use crate::error::{Error, Result};
use crate::util::control::Control;

/// Chooses the columns to read of a table, from its `Reading` and its first rows; `None` for all.
pub(crate) type ColumnChooser = fn(&Reading, &RecordBatch) -> Option<Vec<String>>;

/// The blocks of the inputs of a run, in order.
pub trait InputBlocks: Send {
    /// The next block; `None` after the last block of the last file.
    ///
    /// # Errors
    ///
    /// The error of a file that changed, or that the system or a server does not give. The unreadable rest of a damaged file is one
    /// bad record, the last of the file.
    fn next_block(&mut self, control: &Control) -> Result<Option<Block>>;

    /// The next block, which any thread may read. That fails with [`Error::Changed`] if its file has changed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`InputBlocks::next_block`].
    fn next_unread(&mut self, control: &Control) -> Result<Option<UnreadBlock>> {
        Ok(self.next_block(control)?.map(UnreadBlock::from))
    }

    /// Reads only the table columns that `chooser` selects.
    fn choose_columns(&mut self, chooser: ColumnChooser);

    /// The bytes of all blocks together, about; 0 where that is unknown.
    fn size(&self) -> u64;

    /// The sources.
    fn sources(&self) -> &[Source];

    /// True if the records are read from files, and not from memory.
    fn are_of_files(&self) -> bool;

    /// The format of a file, as reports name it.
    fn format(&self, file: usize) -> String;

    /// The error itself, or [`Error::Changed`] if its file changed while it was read.
    fn blame(&self, error: Error) -> Error;
}
