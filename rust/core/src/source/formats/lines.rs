//! Line files: read in blocks and cut at newlines, so that one large file keeps all threads busy.

use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::decompressed_input::InputBytes;
use crate::source::sizes::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD, wanted_behind};
use crate::util::control::Control;

/// The lines of one file.
pub(crate) struct LineReader {
    input: InputBytes,
    next_line: u64,
    /// The bytes after the last newline.
    rest: Vec<u8>,
    /// True if the current line is too long, so that its rest is skipped.
    is_too_long: bool,
    /// True if an index line stands before each record.
    indexed: bool,
}

impl LineReader {
    pub(crate) fn new(input: InputBytes, indexed: bool) -> Self {
        Self { input, next_line: 1, rest: Vec::new(), is_too_long: false, indexed }
    }

    /// Sets the number, or the identity, of the first line.
    pub(crate) fn starting_at(self, next_line: u64) -> Self {
        Self { next_line, ..self }
    }

    /// The number of the next line.
    pub(crate) fn next_line(&self) -> u64 {
        self.next_line
    }

    /// Skips the rest of a line that is too long.
    fn pass_over(&mut self, control: &Control) -> Result<()> {
        while self.is_too_long {
            self.rest.clear();
            if self.input.fill(&mut self.rest, BLOCK_BYTES, control)? == 0 {
                return Ok(());
            }
            if let Some(newline) = memchr::memchr(b'\n', &self.rest) {
                self.rest.drain(..=newline);
                self.next_line += 1;
                self.is_too_long = false;
            }
        }
        Ok(())
    }
}

impl BlockReader for LineReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        self.pass_over(control)?;
        let mut bytes = std::mem::take(&mut self.rest);
        let end = loop {
            let before = bytes.len();
            let wanted = wanted_behind(before);
            if self.input.fill(&mut bytes, wanted, control)? < wanted {
                break bytes.len();
            }
            if let Some(newline) = memchr::memrchr(b'\n', &bytes[before..]) {
                break before + newline + 1;
            }
            if bytes.len() > LONGEST_RECORD {
                self.is_too_long = true;
                return Ok(Some(BlockContent::Refused {
                    line: self.next_line,
                    reason: Reason::LineTooLong,
                    message: format!("a line of more than {LONGEST_RECORD} bytes"),
                }));
            }
        };
        if end == bytes.len() && self.input.is_damaged() {
            // The line that is cut off by the damage is dropped.
            bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |newline| newline + 1));
        } else {
            self.rest = bytes.split_off(end);
        }
        if bytes.is_empty() {
            let line = self.next_line;
            let damage = self.input.take_damage();
            return Ok(damage.map(|message| BlockContent::Broken {
                line,
                reason: Reason::Damaged,
                message,
            }));
        }
        let first_line = self.next_line;
        self.next_line += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        if first_line == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(BlockContent::Lines { first_line, bytes, indexed: self.indexed }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
