//! CBOR sequences: items one after another, cut apart here by their heads and parsed on all threads.

use std::ops::Range;

use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::decompressed_input::InputBytes;
use crate::source::sizes::{LONGEST_RECORD, wanted_behind};
use crate::util::control::Control;

/// The deepest nesting at which the end of an item is found. Records are far less deep.
const DEEPEST: usize = 1 << 16;

/// The items of one file, numbered from 1.
pub(crate) struct CborReader {
    input: InputBytes,
    next_item: u64,
    /// The bytes after the last complete item, and how many of them the walk has passed.
    rest: Vec<u8>,
    walked: usize,
    walk: ItemWalk,
    /// True if the current item is too long, so that its rest is skipped.
    is_too_long: bool,
    /// The unreadable record that follows the items of the last block, if there is one.
    next: Option<BlockContent>,
    ended: bool,
}

impl CborReader {
    pub(crate) fn new(input: InputBytes) -> Self {
        Self {
            input,
            next_item: 1,
            rest: Vec::new(),
            walked: 0,
            walk: ItemWalk::default(),
            is_too_long: false,
            next: None,
            ended: false,
        }
    }

    /// Finds the items that end in the bytes read so far. Returns the start of the first that does not.
    fn cut(&mut self, places: &mut Vec<(u64, Range<usize>)>) -> usize {
        let mut start = 0;
        while self.walked < self.rest.len() && self.next.is_none() {
            let (passed, step) = self.walk.pass(&self.rest[self.walked..]);
            self.walked += passed;
            match step {
                WalkEnd::Whole => {
                    if !std::mem::take(&mut self.is_too_long) {
                        places.push((self.next_item, start..self.walked));
                    }
                    self.next_item += 1;
                    start = self.walked;
                }
                WalkEnd::Short => break,
                WalkEnd::Malformed(what) => {
                    self.stop(Reason::InvalidCbor, format!("the item is not CBOR: {what}"));
                }
            }
        }
        start
    }

    /// Handles the end of the file: a last item that is cut off is damage.
    fn finish(&mut self, start: usize) {
        self.ended = true;
        if self.next.is_some() {
            return;
        }
        if let Some(damage) = self.input.take_damage() {
            self.stop(Reason::Damaged, damage);
        } else if start < self.rest.len() || !self.walk.is_between() {
            self.stop(Reason::InvalidCbor, "the file ends within the item".to_owned());
        }
    }

    /// Records that the file cannot be read from the next item on.
    fn stop(&mut self, reason: Reason, message: String) {
        let line = self.next_item;
        self.next = Some(BlockContent::Broken { line, reason, message });
    }

    /// Removes the bytes up to `end`.
    fn forget(&mut self, end: usize) -> Vec<u8> {
        let rest = self.rest.split_off(end);
        self.walked -= end;
        std::mem::replace(&mut self.rest, rest)
    }
}

impl BlockReader for CborReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        let mut places = Vec::new();
        while places.is_empty() && self.next.is_none() && !self.ended {
            if self.is_too_long {
                self.forget(self.walked);
            }
            let before = self.rest.len();
            let wanted = wanted_behind(before);
            let ended = self.input.fill(&mut self.rest, wanted, control)? < wanted;
            let start = self.cut(&mut places);
            if ended {
                self.finish(start);
            }
            let bytes = self.forget(start);
            if !places.is_empty() {
                return Ok(Some(BlockContent::Items { bytes, places }));
            }
            if self.rest.len() > LONGEST_RECORD && !self.is_too_long && self.next.is_none() {
                self.is_too_long = true;
                return Ok(Some(BlockContent::Refused {
                    line: self.next_item,
                    reason: Reason::LineTooLong,
                    message: format!("an item of more than {LONGEST_RECORD} bytes"),
                }));
            }
        }
        Ok(self.next.take())
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}

/// The end of a walk over bytes.
enum WalkEnd {
    /// At the end of an item.
    Whole,
    /// At the end of the bytes, or at a head that they cut off.
    Short,
    /// At bytes that are no item.
    Malformed(&'static str),
}

/// The open part of an incomplete item.
enum OpenItem {
    /// This many items.
    Items(u64),
    /// Items up to a break.
    Unbounded,
    /// Strings of this major type up to a break.
    Pieces(u8),
}

/// A walk over the heads of items. It resumes where the bytes ended.
///
/// The content of texts is not checked here. A text that is not UTF-8 makes a bad record, and does not end
/// the file.
#[derive(Default)]
struct ItemWalk {
    open: Vec<OpenItem>,
    /// Remaining bytes of the current string.
    left: u64,
}

impl ItemWalk {
    /// True if the walk is between two items.
    fn is_between(&self) -> bool {
        self.open.is_empty() && self.left == 0
    }

    /// Continues over `bytes`, to the end of an item at most. Returns the bytes passed, and the reason for
    /// the stop.
    fn pass(&mut self, bytes: &[u8]) -> (usize, WalkEnd) {
        if self.is_between() {
            self.open.push(OpenItem::Items(1));
        }
        let mut at = 0;
        loop {
            let step = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
            at += step;
            self.left -= step as u64;
            if self.left > 0 {
                return (at, WalkEnd::Short);
            }
            while matches!(self.open.last(), Some(OpenItem::Items(0))) {
                self.open.pop();
            }
            if self.open.is_empty() {
                return (at, WalkEnd::Whole);
            }
            match self.head(&bytes[at..]) {
                Ok(Some(length)) => at += length,
                Ok(None) => return (at, WalkEnd::Short),
                Err(what) => return (at, WalkEnd::Malformed(what)),
            }
        }
    }

    /// Reads the head at the start of `bytes`. Returns its length; `None` if it is incomplete.
    fn head(&mut self, bytes: &[u8]) -> std::result::Result<Option<usize>, &'static str> {
        let Some(&head) = bytes.first() else { return Ok(None) };
        let (major, info) = (head >> 5, head & 0x1f);
        let (argument, length) = match info {
            0..24 => (Some(u64::from(info)), 1),
            24..28 => {
                let width = 1 << (info - 24);
                let Some(wide) = bytes.get(1..=width) else { return Ok(None) };
                let number = wide.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
                (Some(number), 1 + width)
            }
            31 => (None, 1),
            _ => return Err("a head of no known kind"),
        };
        if head == BREAK {
            return match self.open.pop() {
                Some(OpenItem::Unbounded | OpenItem::Pieces(_)) => Ok(Some(length)),
                _ => Err("a break where nothing is to end"),
            };
        }
        match self.open.last_mut() {
            Some(OpenItem::Pieces(of)) if *of != major || argument.is_none() => {
                return Err("a string in pieces that are none");
            }
            // A tag is a part of its item.
            Some(OpenItem::Items(left)) if major != TAG => *left -= 1,
            _ => {}
        }
        match (major, argument) {
            (BYTES | TEXT, Some(length)) => self.left = length,
            (BYTES | TEXT, None) => self.open.push(OpenItem::Pieces(major)),
            (LIST, Some(items)) => self.open.push(OpenItem::Items(items)),
            (MAP, Some(entries)) => self.open.push(OpenItem::Items(entries.saturating_mul(2))),
            (LIST | MAP, None) => self.open.push(OpenItem::Unbounded),
            (_, Some(_)) => {}
            (_, None) => return Err("a number without an end"),
        }
        if self.open.len() > DEEPEST { Err("it is nested too deep") } else { Ok(Some(length)) }
    }
}

/// The major types whose items have more than a head.
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;

/// The break, which ends an item of unknown length.
const BREAK: u8 = 0xff;
