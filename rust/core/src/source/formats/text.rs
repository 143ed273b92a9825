//! Files of plain text: each is one document, or a document between every two separators.

use std::ops::Range;

use memchr::memmem::Finder;

use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::decompressed_input::InputBytes;
use crate::source::sizes::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD, wanted_behind};
use crate::util::control::Control;

/// The texts of one file.
pub(crate) struct TextReader {
    input: InputBytes,
    /// The separator between two texts; without it the whole file is one text.
    separator: Option<Finder<'static>>,
    /// The bytes that are in no block yet, and the line of the first.
    rest: Vec<u8>,
    line: u64,
    began: bool,
    /// True if the current text is too long, so that its rest is skipped.
    is_too_long: bool,
    broken: Option<BlockContent>,
    ended: bool,
}

impl TextReader {
    pub(crate) fn new(input: InputBytes, separator: Option<&str>) -> Self {
        Self {
            input,
            separator: separator.map(|text| Finder::new(text.as_bytes()).into_owned()),
            rest: Vec::new(),
            line: 1,
            began: false,
            is_too_long: false,
            broken: None,
            ended: false,
        }
    }

    /// Reads the next bytes: a block, or the whole rest if the file is one text.
    fn fill(&mut self, control: &Control) -> Result<()> {
        let before = self.rest.len();
        let wanted = match self.separator {
            Some(_) => wanted_behind(before),
            None => LONGEST_RECORD + 1,
        };
        self.ended = self.input.fill(&mut self.rest, wanted, control)? < wanted;
        if !self.began && self.rest.starts_with(BYTE_ORDER_MARK) {
            self.rest.drain(..BYTE_ORDER_MARK.len());
        }
        self.began = true;
        Ok(())
    }

    /// Skips the rest of a text that is too long; false if nothing follows it.
    fn pass_over(&mut self, control: &Control) -> Result<bool> {
        // Without a separator the whole file is one text.
        let Some(separator) = self.separator.clone() else { return Ok(false) };
        let mut more = true;
        loop {
            let found = separator.find(&self.rest).map(|at| at + separator.needle().len());
            // The end of the bytes may be the start of a separator.
            let kept = separator.needle().len() - 1;
            let passed = found.unwrap_or(self.rest.len().saturating_sub(kept));
            self.line += memchr::memchr_iter(b'\n', &self.rest[..passed]).count() as u64;
            self.rest.drain(..passed);
            if found.is_some() {
                self.is_too_long = false;
                return Ok(true);
            }
            if !more {
                self.ended = true;
                return Ok(false);
            }
            more = self.input.fill(&mut self.rest, BLOCK_BYTES, control)? == BLOCK_BYTES;
        }
    }

    /// The places of the texts that end in the bytes read so far, and the start of the first that does not.
    fn cut(&mut self) -> (Vec<(u64, Range<usize>)>, usize) {
        let mut places = Vec::new();
        let (mut start, mut line) = (0, self.line);
        let mut place = |text: Range<usize>, line: u64| {
            // An empty file counts as one text, which then fails as empty.
            if self.separator.is_none() || !self.rest[text.clone()].trim_ascii().is_empty() {
                places.push((line, text));
            }
        };
        if let Some(separator) = &self.separator {
            for at in separator.find_iter(&self.rest) {
                place(start..at, line);
                let next = at + separator.needle().len();
                line += memchr::memchr_iter(b'\n', &self.rest[start..next]).count() as u64;
                start = next;
            }
        }
        if self.ended && !self.input.is_damaged() {
            place(start..self.rest.len(), line);
            start = self.rest.len();
        }
        self.line = line;
        (places, start)
    }
}

impl BlockReader for TextReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        while !self.ended {
            if self.is_too_long && !self.pass_over(control)? {
                break;
            }
            self.fill(control)?;
            let (places, end) = self.cut();
            if self.ended
                && let Some(message) = self.input.take_damage()
            {
                // The text that is cut off by the damage is dropped.
                let line = self.line;
                self.broken = Some(BlockContent::Broken { line, reason: Reason::Damaged, message });
            }
            if !places.is_empty() {
                let rest = self.rest.split_off(end);
                let bytes = std::mem::replace(&mut self.rest, rest);
                return Ok(Some(BlockContent::Texts { bytes, places }));
            }
            if self.rest.len() > LONGEST_RECORD {
                self.is_too_long = true;
                return Ok(Some(BlockContent::Refused {
                    line: self.line,
                    reason: Reason::LineTooLong,
                    message: format!("a text of more than {LONGEST_RECORD} bytes"),
                }));
            }
        }
        Ok(self.broken.take())
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
