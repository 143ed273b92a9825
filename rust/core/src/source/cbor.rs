//! CBOR sequences: items one after another, cut apart here by their heads and read on all threads.

use std::path::Path;
use std::sync::Arc;

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
            let mut end = 0;
            let fault = loop {
                if end == bytes.len() {
                    break None;
                }
                match item(&bytes[end..]) {
                    Ok(length) => {
                        places.push((self.next_item, end..end + length));
                        self.next_item += 1;
                        end += length;
                    }
                    Err(fault) => break Some(fault),
                }
            };
            match fault {
                Some(Fault::Malformed(what)) => {
                    self.stop(Reason::InvalidCbor, format!("the item is not CBOR: {what}"));
                }
                Some(Fault::Ended) if ended => match self.input.take_damage() {
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

/// Why no item begins here.
enum Fault {
    /// The bytes end within it.
    Ended,
    /// This is wrong with it.
    Malformed(&'static str),
}

/// What an item that is not whole yet goes on with.
enum Open {
    /// So many items.
    Items(u64),
    /// Items up to a break.
    Unbounded,
    /// Strings of this major type up to a break.
    Pieces(u8),
}

/// How long the item is that begins here.
///
/// What texts hold is not looked at: one that is not UTF-8 makes a bad record of an item, and not an end of the file.
fn item(bytes: &[u8]) -> std::result::Result<usize, Fault> {
    let mut at = 0;
    let mut open = vec![Open::Items(1)];
    while let Some(innermost) = open.last_mut() {
        if matches!(innermost, Open::Items(0)) {
            open.pop();
            continue;
        }
        let head = *bytes.get(at).ok_or(Fault::Ended)?;
        at += 1;
        let (major, info) = (head >> 5, head & 0x1f);
        let argument = match info {
            0..24 => Some(u64::from(info)),
            24..28 => {
                let width = 1 << (info - 24);
                let wide = bytes.get(at..at + width).ok_or(Fault::Ended)?;
                at += width;
                Some(wide.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
            }
            31 => None,
            _ => return Err(Fault::Malformed("a head of no known kind")),
        };
        if head == BREAK {
            match open.pop() {
                Some(Open::Unbounded | Open::Pieces(_)) => continue,
                _ => return Err(Fault::Malformed("a break where nothing is to end")),
            }
        }
        match innermost {
            Open::Pieces(of) if *of != major || argument.is_none() => {
                return Err(Fault::Malformed("a string in pieces that are none"));
            }
            // A tag is the beginning of an item.
            Open::Items(left) if major != TAG => *left -= 1,
            _ => {}
        }
        match (major, argument) {
            (BYTES | TEXT, Some(length)) => {
                let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
                at = end.filter(|end| *end <= bytes.len()).ok_or(Fault::Ended)?;
            }
            (BYTES | TEXT, None) => open.push(Open::Pieces(major)),
            (LIST, Some(items)) => open.push(Open::Items(items)),
            (MAP, Some(entries)) => open.push(Open::Items(entries.saturating_mul(2))),
            (LIST | MAP, None) => open.push(Open::Unbounded),
            (_, Some(_)) => {}
            (_, None) => return Err(Fault::Malformed("a number without an end")),
        }
    }
    Ok(at)
}

/// The major types that have more than a head.
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;

/// What ends an item whose length is not told.
const BREAK: u8 = 0xff;
