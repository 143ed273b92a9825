//! Line files: read in blocks and cut at newlines, so that one large file keeps all threads busy.

use std::path::Path;
use std::sync::Arc;

use super::block::{Content, Reader};
use super::blocks::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD};
use super::input::Input;
use crate::error::{Error, Origin, Result};
use crate::ledger::Reason;

/// The lines of one file.
pub(super) struct LineReader {
    path: Arc<Path>,
    input: Input,
    next_line: u64,
    /// What was read after the last newline.
    rest: Vec<u8>,
    /// Whether a line before each record says where it belongs.
    indexed: bool,
}

impl LineReader {
    pub(super) fn new(input: Input, path: &Arc<Path>, indexed: bool) -> Self {
        Self { path: Arc::clone(path), input, next_line: 1, rest: Vec::new(), indexed }
    }
}

impl Reader for LineReader {
    fn next_content(&mut self) -> Result<Option<Content>> {
        let mut bytes = std::mem::take(&mut self.rest);
        let end = loop {
            let before = bytes.len();
            let wanted = BLOCK_BYTES.max(before);
            if self.input.fill(&mut bytes, wanted)? < wanted {
                break bytes.len();
            }
            if let Some(newline) = memchr::memrchr(b'\n', &bytes[before..]) {
                break before + newline + 1;
            }
            if bytes.len() > LONGEST_RECORD {
                let origin = Origin { path: Arc::clone(&self.path), line: self.next_line };
                let message = format!("a line of more than {LONGEST_RECORD} bytes");
                return Err(Error::Record { origin, reason: Reason::LineTooLong, message });
            }
        };
        if end == bytes.len() && self.input.is_damaged() {
            // The line that the damage cuts is no record.
            bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |newline| newline + 1));
        } else {
            self.rest = bytes.split_off(end);
        }
        if bytes.is_empty() {
            let line = self.next_line;
            let damage = self.input.take_damage();
            return Ok(damage.map(|message| Content::Broken {
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
        Ok(Some(Content::Lines { first_line, bytes, indexed: self.indexed }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
