//! Line files: read in blocks and cut at newlines, so that one large file keeps all threads busy.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::decompressed_input::InputBytes;
use crate::source::formats::unread_lines::{LineNumber, UnreadLines, count_lines};
use crate::source::sizes::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD, wanted_behind};
use crate::util::control::Control;
use crate::util::disk::local_file::SharedFile;

/// Bytes in which the last newline of a block is searched, first in few. Lines that are longer are read on the spot.
const LOOKED_AT: [usize; 2] = [8 << 10, 64 << 10];

/// The lines of one file.
pub(crate) struct LineReader {
    input: InputBytes,
    next_line: LineNumber,
    /// The file, if any thread may read blocks of it.
    file: Option<Arc<SharedFile>>,
    /// The bytes after the last newline.
    rest: Vec<u8>,
    /// True if the current line is too long, so that its rest is skipped.
    is_too_long: bool,
    /// True if an index line stands before each record.
    indexed: bool,
}

impl LineReader {
    pub(crate) fn new(input: InputBytes, indexed: bool) -> Self {
        let next_line = LineNumber::known(1);
        Self { input, next_line, file: None, rest: Vec::new(), is_too_long: false, indexed }
    }

    /// The lines of a whole file, of which any thread may read blocks if it lies on the local disk as it is.
    pub(crate) fn of_whole_file(input: InputBytes, indexed: bool) -> Result<Self> {
        let file = input.shared_file()?.map(Arc::new);
        Ok(Self { file, ..Self::new(input, indexed) })
    }

    /// Sets the number, or the identity, of the first line.
    pub(crate) fn starting_at(self, next_line: u64) -> Self {
        Self { next_line: LineNumber::known(next_line), ..self }
    }

    /// The number of the next line, once the blocks before it have been read.
    pub(crate) fn next_line(&self) -> Result<u64> {
        self.next_line.get()
    }

    /// The end of the last line in a part of the file, and the bytes of the part behind it, if it is easily found.
    fn last_end(file: &SharedFile, part: Range<u64>) -> Result<Option<(u64, Vec<u8>)>> {
        for looked_at in LOOKED_AT {
            let mut bytes = vec![0; looked_at];
            let begin = part.end - looked_at as u64;
            file.read_at(&mut bytes, begin)?;
            if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
                let rest = bytes.split_off(newline + 1);
                return Ok(Some((part.end - rest.len() as u64, rest)));
            }
        }
        Ok(None)
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
                self.next_line = LineNumber::known(self.next_line.get()? + 1);
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
                    line: self.next_line.get()?,
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
            let line = self.next_line.get()?;
            let damage = self.input.take_damage();
            return Ok(damage.map(|message| BlockContent::Broken {
                line,
                reason: Reason::Damaged,
                message,
            }));
        }
        let first_line = self.next_line.get()?;
        self.next_line = LineNumber::known(first_line + count_lines(&bytes));
        if first_line == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(BlockContent::Lines { first_line, bytes, indexed: self.indexed }))
    }

    /// Finds the end of the next block, which [`next_content`](Self::next_content) would end at too.
    fn next_unread(&mut self) -> Result<Option<UnreadLines>> {
        let read = self.input.position();
        let Some(file) = self.file.as_ref().filter(|_| read > 0 && !self.is_too_long) else {
            return Ok(None);
        };
        let wanted = wanted_behind(self.rest.len()) as u64;
        if self.input.is_peeked() || read + wanted >= file.size() {
            return Ok(None);
        }
        let begin = read - self.rest.len() as u64;
        let Some((end, rest)) = Self::last_end(file, read..read + wanted)? else { return Ok(None) };
        let (number, next_line) = LineNumber::unknown();
        let lines = UnreadLines {
            file: Arc::clone(file),
            bytes: begin..end,
            first_line: std::mem::replace(&mut self.next_line, number),
            next_line,
            indexed: self.indexed,
        };
        self.input.skip(wanted)?;
        self.rest = rest;
        Ok(Some(lines))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
