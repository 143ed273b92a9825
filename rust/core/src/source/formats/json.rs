//! A JSON file of one array, cut into its values here. They are parsed on all threads.

use std::ops::Range;

use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::decompressed_input::InputBytes;
use crate::source::sizes::{BYTE_ORDER_MARK, LONGEST_RECORD, wanted_behind};
use crate::util::control::Control;

/// The values of an array.
pub(crate) struct ArrayReader {
    input: InputBytes,
    /// The bytes that are in no block yet.
    bytes: Vec<u8>,
    /// The place in `bytes` where the search continues.
    at: usize,
    expected: ExpectedItem,
    /// The beginning of the current value in `bytes`.
    start: usize,
    /// Newlines before `counted` in `bytes`, plus those in all bytes removed before.
    newlines: u64,
    counted: usize,
    began: bool,
    /// True if the current value is too long, so that its rest is skipped.
    is_too_long: bool,
    broken: Option<BlockContent>,
    ended: bool,
}

/// The part of the array that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedItem {
    /// The bracket that opens the array.
    Array,
    /// A value, or the end of an empty array.
    First,
    /// A value.
    Value,
    /// The rest of a list or object, at this bracket depth.
    Inside(u32),
    /// The rest of a string, at this bracket depth.
    String(u32),
    /// The rest of a number or a word.
    Scalar,
    /// A comma, or the end of the array.
    Comma,
    /// Nothing.
    End,
}

impl ArrayReader {
    pub(crate) fn new(input: InputBytes) -> Self {
        Self {
            input,
            bytes: Vec::new(),
            at: 0,
            expected: ExpectedItem::Array,
            start: 0,
            newlines: 0,
            counted: 0,
            began: false,
            is_too_long: false,
            broken: None,
            ended: false,
        }
    }

    /// The line of byte `at`.
    fn line(&mut self, at: usize) -> u64 {
        self.newlines += memchr::memchr_iter(b'\n', &self.bytes[self.counted..at]).count() as u64;
        self.counted = at;
        self.newlines + 1
    }

    /// Finds the values that end in the bytes read so far.
    fn scan(&mut self, places: &mut Vec<(u64, Range<usize>)>) {
        while self.at < self.bytes.len() {
            let byte = self.bytes[self.at];
            let blank = byte.is_ascii_whitespace();
            match self.expected {
                ExpectedItem::Inside(depth) => {
                    self.expected = match byte {
                        b'"' => ExpectedItem::String(depth),
                        b'{' | b'[' => ExpectedItem::Inside(depth + 1),
                        b'}' | b']' if depth == 1 => self.close(self.at + 1, places),
                        b'}' | b']' => ExpectedItem::Inside(depth - 1),
                        _ => self.expected,
                    };
                }
                ExpectedItem::String(depth) => {
                    let rest = &self.bytes[self.at..];
                    let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                        self.at = self.bytes.len();
                        return;
                    };
                    self.at += found;
                    if self.bytes[self.at] == b'\\' {
                        if self.at + 1 == self.bytes.len() {
                            return;
                        }
                        self.at += 1;
                    } else if depth == 0 {
                        self.expected = self.close(self.at + 1, places);
                    } else {
                        self.expected = ExpectedItem::Inside(depth);
                    }
                }
                ExpectedItem::Scalar if blank || matches!(byte, b',' | b']') => {
                    self.expected = self.close(self.at, places);
                    continue;
                }
                ExpectedItem::Scalar => {}
                _ if blank => {}
                ExpectedItem::Array if byte == b'[' => self.expected = ExpectedItem::First,
                ExpectedItem::First | ExpectedItem::Comma if byte == b']' => {
                    self.expected = ExpectedItem::End;
                }
                ExpectedItem::Comma if byte == b',' => self.expected = ExpectedItem::Value,
                ExpectedItem::First | ExpectedItem::Value
                    if !matches!(byte, b',' | b']' | b'}') =>
                {
                    self.start = self.at;
                    self.expected = match byte {
                        b'"' => ExpectedItem::String(0),
                        b'{' | b'[' => ExpectedItem::Inside(1),
                        _ => ExpectedItem::Scalar,
                    };
                }
                ExpectedItem::Array
                | ExpectedItem::First
                | ExpectedItem::Value
                | ExpectedItem::Comma
                | ExpectedItem::End => {
                    let found = format!("`{}`", char::from(byte).escape_default());
                    self.stop(self.at, Reason::InvalidJson, &found);
                    return;
                }
            }
            self.at += 1;
        }
    }

    /// Ends the current value before `end`.
    fn close(&mut self, end: usize, places: &mut Vec<(u64, Range<usize>)>) -> ExpectedItem {
        if !std::mem::take(&mut self.is_too_long) {
            places.push((self.line(self.start), self.start..end));
        }
        ExpectedItem::Comma
    }

    /// True if a value began and did not end.
    fn is_in_value(&self) -> bool {
        matches!(
            self.expected,
            ExpectedItem::Inside(_) | ExpectedItem::String(_) | ExpectedItem::Scalar
        )
    }

    /// Removes the bytes up to `end`.
    fn forget(&mut self, end: usize) -> Vec<u8> {
        if self.counted < end {
            self.line(end);
        }
        let rest = self.bytes.split_off(end);
        self.at = self.at.saturating_sub(end);
        self.start = self.start.saturating_sub(end);
        self.counted -= end;
        std::mem::replace(&mut self.bytes, rest)
    }

    /// Records that the file cannot be read from `at` on.
    fn stop(&mut self, at: usize, reason: Reason, found: &str) {
        let wanted = match self.expected {
            ExpectedItem::Array => "a list of records",
            ExpectedItem::First | ExpectedItem::Value => "a record",
            ExpectedItem::Comma => "`,` or the `]` that ends the list",
            ExpectedItem::End => "nothing after the list",
            ExpectedItem::Inside(_) | ExpectedItem::String(_) | ExpectedItem::Scalar => {
                "the rest of a record"
            }
        };
        let line = self.line(at);
        let message = format!("expected {wanted}, found {found}");
        self.broken = Some(BlockContent::Broken { line, reason, message });
    }

    /// Handles the end of the file: an array that does not close is damage.
    fn finish(&mut self) {
        self.ended = true;
        let at = if self.is_in_value() { self.start } else { self.bytes.len() };
        if let Some(message) = self.input.take_damage() {
            let line = self.line(at);
            self.broken = Some(BlockContent::Broken { line, reason: Reason::Damaged, message });
        } else if self.expected != ExpectedItem::End {
            self.stop(at, Reason::InvalidJson, "the end of the file");
        }
    }
}

impl BlockReader for ArrayReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        let mut places = Vec::new();
        while places.is_empty() && self.broken.is_none() && !self.ended {
            if self.is_too_long || !self.is_in_value() {
                self.forget(self.at);
            }
            let before = self.bytes.len();
            let wanted = wanted_behind(before);
            let read = self.input.fill(&mut self.bytes, wanted, control)?;
            if !std::mem::replace(&mut self.began, true) && self.bytes.starts_with(BYTE_ORDER_MARK)
            {
                self.at = BYTE_ORDER_MARK.len();
            }
            self.scan(&mut places);
            if read < wanted && self.broken.is_none() {
                self.finish();
            }
            if places.is_empty() && self.is_in_value() && self.bytes.len() > LONGEST_RECORD {
                self.is_too_long = true;
                return Ok(Some(BlockContent::Refused {
                    line: self.line(self.start),
                    reason: Reason::LineTooLong,
                    message: format!("a record of more than {LONGEST_RECORD} bytes"),
                }));
            }
        }
        let Some((_, last)) = places.last() else { return Ok(self.broken.take()) };
        let end = last.end;
        let bytes = self.forget(end);
        Ok(Some(BlockContent::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
