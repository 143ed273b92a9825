//! A JSON file that is one array: cut into its values without reading them, which is done on all threads.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::block::{Content, Reader};
use super::blocks::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD};
use super::input::Input;
use crate::error::{Error, Origin, Result};
use crate::ledger::Reason;

/// The values of an array.
pub(super) struct ArrayReader {
    path: Arc<Path>,
    input: Input,
    /// What no block holds yet.
    bytes: Vec<u8>,
    /// Where in `bytes` to look on.
    at: usize,
    expected: Expected,
    /// Where in `bytes` the value at hand begins.
    start: usize,
    /// Newlines before `counted` in `bytes`, and in all that was there before.
    newlines: u64,
    counted: usize,
    broken: Option<Content>,
    ended: bool,
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The bracket that opens the array.
    Array,
    /// A value, or the end of an array that has none.
    First,
    /// A value.
    Value,
    /// The rest of a list or object, that many brackets deep.
    Inside(u32),
    /// The rest of a string, that many brackets deep.
    String(u32),
    /// The rest of a number or a word.
    Scalar,
    /// A comma, or the end of the array.
    Comma,
    /// Nothing.
    End,
}

impl ArrayReader {
    pub(super) fn new(input: Input, path: &Arc<Path>) -> Self {
        Self {
            path: Arc::clone(path),
            input,
            bytes: Vec::new(),
            at: 0,
            expected: Expected::Array,
            start: 0,
            newlines: 0,
            counted: 0,
            broken: None,
            ended: false,
        }
    }

    /// The line on which byte `at` stands.
    fn line(&mut self, at: usize) -> u64 {
        self.newlines += memchr::memchr_iter(b'\n', &self.bytes[self.counted..at]).count() as u64;
        self.counted = at;
        self.newlines + 1
    }

    /// Finds the values that end in what was read so far.
    fn scan(&mut self, places: &mut Vec<(u64, Range<usize>)>) {
        while self.at < self.bytes.len() {
            let byte = self.bytes[self.at];
            let blank = byte.is_ascii_whitespace();
            match self.expected {
                Expected::Inside(depth) => {
                    self.expected = match byte {
                        b'"' => Expected::String(depth),
                        b'{' | b'[' => Expected::Inside(depth + 1),
                        b'}' | b']' if depth == 1 => self.close(self.at + 1, places),
                        b'}' | b']' => Expected::Inside(depth - 1),
                        _ => self.expected,
                    };
                }
                Expected::String(depth) => {
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
                        self.expected = Expected::Inside(depth);
                    }
                }
                Expected::Scalar if blank || matches!(byte, b',' | b']') => {
                    self.expected = self.close(self.at, places);
                    continue;
                }
                Expected::Scalar => {}
                _ if blank => {}
                Expected::Array if byte == b'[' => self.expected = Expected::First,
                Expected::First | Expected::Comma if byte == b']' => self.expected = Expected::End,
                Expected::Comma if byte == b',' => self.expected = Expected::Value,
                Expected::First | Expected::Value if !matches!(byte, b',' | b']' | b'}') => {
                    self.start = self.at;
                    self.expected = match byte {
                        b'"' => Expected::String(0),
                        b'{' | b'[' => Expected::Inside(1),
                        _ => Expected::Scalar,
                    };
                }
                Expected::Array
                | Expected::First
                | Expected::Value
                | Expected::Comma
                | Expected::End => {
                    let found = format!("`{}`", char::from(byte).escape_default());
                    self.stop(self.at, Reason::InvalidJson, &found);
                    return;
                }
            }
            self.at += 1;
        }
    }

    /// Ends the value at hand before `end`.
    fn close(&mut self, end: usize, places: &mut Vec<(u64, Range<usize>)>) -> Expected {
        places.push((self.line(self.start), self.start..end));
        Expected::Comma
    }

    /// Says that the file cannot be read from `at` on.
    fn stop(&mut self, at: usize, reason: Reason, found: &str) {
        let wanted = match self.expected {
            Expected::Array => "a list of records",
            Expected::First | Expected::Value => "a record",
            Expected::Comma => "`,` or the `]` that ends the list",
            Expected::End => "nothing after the list",
            Expected::Inside(_) | Expected::String(_) | Expected::Scalar => "the rest of a record",
        };
        let line = self.line(at);
        let message = format!("expected {wanted}, found {found}");
        self.broken = Some(Content::Broken { line, reason, message });
    }

    /// Looks at why the file ends here.
    fn finish(&mut self) {
        self.ended = true;
        let value =
            matches!(self.expected, Expected::Inside(_) | Expected::String(_) | Expected::Scalar);
        let at = if value { self.start } else { self.bytes.len() };
        if let Some(message) = self.input.take_damage() {
            let line = self.line(at);
            self.broken = Some(Content::Broken { line, reason: Reason::Damaged, message });
        } else if self.expected != Expected::End {
            self.stop(at, Reason::InvalidJson, "the end of the file");
        }
    }
}

impl Reader for ArrayReader {
    fn next_content(&mut self) -> Result<Option<Content>> {
        let mut places = Vec::new();
        while places.is_empty() && self.broken.is_none() && !self.ended {
            let before = self.bytes.len();
            let wanted = BLOCK_BYTES.max(before);
            let read = self.input.fill(&mut self.bytes, wanted)?;
            if before == 0 && self.expected == Expected::Array {
                let mark = self.bytes.starts_with(BYTE_ORDER_MARK);
                self.at += if mark { BYTE_ORDER_MARK.len() } else { 0 };
            }
            self.scan(&mut places);
            if read < wanted && self.broken.is_none() {
                self.finish();
            }
            if places.is_empty() && self.bytes.len() > LONGEST_RECORD {
                let origin = Origin { path: Arc::clone(&self.path), line: self.line(self.start) };
                let message = format!("a record of more than {LONGEST_RECORD} bytes");
                return Err(Error::Record { origin, reason: Reason::LineTooLong, message });
            }
        }
        let Some((_, last)) = places.last() else { return Ok(self.broken.take()) };
        let end = last.end;
        if self.counted < end {
            self.line(end);
        }
        let rest = self.bytes.split_off(end);
        let bytes = std::mem::replace(&mut self.bytes, rest);
        self.at = self.at.saturating_sub(end);
        self.start = self.start.saturating_sub(end);
        self.counted -= end;
        Ok(Some(Content::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
