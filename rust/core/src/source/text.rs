//! Files of plain text: each is one document.

use std::path::Path;
use std::sync::Arc;

use super::block::{Content, Reader};
use super::blocks::{BYTE_ORDER_MARK, LONGEST_RECORD};
use super::input::Input;
use crate::error::{Error, Origin, Result};
use crate::ledger::Reason;

/// The text of one file.
pub(super) struct TextReader {
    path: Arc<Path>,
    input: Input,
    read: bool,
}

impl TextReader {
    pub(super) fn new(input: Input, path: &Arc<Path>) -> Self {
        Self { path: Arc::clone(path), input, read: false }
    }
}

impl Reader for TextReader {
    fn next_content(&mut self) -> Result<Option<Content>> {
        if self.read {
            return Ok(None);
        }
        self.read = true;
        let mut text = Vec::new();
        if self.input.fill(&mut text, LONGEST_RECORD + 1)? > LONGEST_RECORD {
            let origin = Origin { path: Arc::clone(&self.path), line: 1 };
            let message = format!("a text of more than {LONGEST_RECORD} bytes");
            return Err(Error::Record { origin, reason: Reason::LineTooLong, message });
        }
        if let Some(message) = self.input.take_damage() {
            return Ok(Some(Content::Broken { line: 1, reason: Reason::Damaged, message }));
        }
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(Content::Text(text)))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
