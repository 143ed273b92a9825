//! [`UnreadBlock`]: a block whose place in its file is known, and which any thread reads.

use super::block::{Block, BlockContent};
use super::formats::unread_lines::UnreadLines;
use crate::error::Result;

/// A block that may not be read yet. One that is dropped unread stops those that are read after it.
#[derive(Debug)]
pub struct UnreadBlock {
    /// The block, without its lines.
    block: Block,
    lines: Option<UnreadLines>,
}

impl UnreadBlock {
    /// A block whose content is these lines.
    pub(super) fn of(block: Block, lines: UnreadLines) -> Self {
        Self { block, lines: Some(lines) }
    }

    /// The block without its records: its file, source, size and repetition.
    pub(crate) fn known(&self) -> &Block {
        &self.block
    }

    /// Reads the block.
    ///
    /// It waits until the block before it has been read: lines are numbered from the beginning of the file.
    pub(crate) fn read(self) -> Result<Block> {
        let Self { mut block, lines } = self;
        if let Some(lines) = lines {
            let indexed = lines.indexed;
            let (first_line, bytes) = lines.read()?;
            block.content = BlockContent::Lines { first_line, bytes, indexed };
        }
        Ok(block)
    }
}

impl From<Block> for UnreadBlock {
    fn from(block: Block) -> Self {
        Self { block, lines: None }
    }
}
