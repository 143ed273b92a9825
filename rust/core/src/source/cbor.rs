//! CBOR sequences: items one after another, cut apart here and read on all threads.

use std::path::Path;
use std::sync::Arc;

use minicbor::Decoder;

use super::block::{Content, Reader};
use super::blocks::{BLOCK_BYTES, LONGEST_RECORD};
use super::input::Input;
use crate::error::{Error, Origin, Result};
use crate::ledger::Reason;

/// The items of one file, numbered from 1.
pub(super) struct CborReader {
    path: Arc<Path>,
    input: Input,
    next_item: u64,
    /// What was read after the last whole item.
    rest: Vec<u8>,
    broken: Option<Content>,
}

impl CborReader {
    pub(super) fn new(input: Input, path: &Arc<Path>) -> Self {
        Self { path: Arc::clone(path), input, next_item: 1, rest: Vec::new(), broken: None }
    }

    /// Says that the file cannot be read from the next item on.
    fn stop(&mut self, reason: Reason, message: String) {
        let line = self.next_item;
        self.broken = Some(Content::Broken { line, reason, message });
    }
}

impl Reader for CborReader {
    fn next_content(&mut self) -> Result<Option<Content>> {
        let mut bytes = std::mem::take(&mut self.rest);
        let mut places = Vec::new();
        while places.is_empty() && self.broken.is_none() {
            let wanted = BLOCK_BYTES.max(bytes.len());
            let ended = self.input.fill(&mut bytes, wanted)? < wanted;
            let mut items = Decoder::new(&bytes);
            let fault = loop {
                let start = items.position();
                if start == bytes.len() {
                    break None;
                }
                if let Err(fault) = items.skip() {
                    items.set_position(start);
                    break Some(fault);
                }
                places.push((self.next_item, start..items.position()));
                self.next_item += 1;
            };
            let end = items.position();
            match fault {
                Some(fault) if !fault.is_end_of_input() => {
                    self.stop(Reason::InvalidCbor, format!("the item is not CBOR: {fault}"));
                }
                Some(_) if ended => match self.input.take_damage() {
                    Some(damage) => self.stop(Reason::Damaged, damage),
                    None => {
                        self.stop(Reason::InvalidCbor, "the file ends within the item".to_owned());
                    }
                },
                _ if ended => {
                    if let Some(damage) = self.input.take_damage() {
                        self.stop(Reason::Damaged, damage);
                    }
                }
                _ => {}
            }
            if ended && places.is_empty() && self.broken.is_none() {
                return Ok(None);
            }
            if places.is_empty() && bytes.len() > LONGEST_RECORD {
                let origin = Origin { path: Arc::clone(&self.path), line: self.next_item };
                let message = format!("an item of more than {LONGEST_RECORD} bytes");
                return Err(Error::Record { origin, reason: Reason::LineTooLong, message });
            }
            if !places.is_empty() {
                self.rest = bytes.split_off(end);
            }
        }
        if places.is_empty() {
            return Ok(self.broken.take());
        }
        Ok(Some(Content::Items { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
