//! [`ObjectReader`]: the bytes of an object in order, fetched ahead by several requests at a time.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::object::{Fetched, Object};

/// The ends of the first pieces. They are small, so that the first records come soon.
const FIRST: [u64; 4] = [256 << 10, 1 << 20, 4 << 20, 8 << 20];

/// Bytes of a later piece: few requests for a gigabyte, and several at a time fit into memory.
const PIECE: u64 = 8 << 20;

/// Pieces that are fetched ahead of the one that is read.
const PIECES_AHEAD: usize = 4;

/// Bytes that are fetched at a time where reads are scattered: most lines are shorter.
const SCATTERED: u64 = 16 << 10;

/// Scattered stretches that are fetched ahead.
const STRETCHES_AHEAD: usize = 24;

/// The order in which a reader will be asked for bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// From the beginning to the end of a range.
    Range(Range<u64>),
    /// In small stretches that lie apart, at these places if they are known, in order.
    Scattered(VecDeque<u64>),
}

/// The bytes of an object.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    object: Arc<Object>,
    access: Access,
    at: u64,
    piece: Option<(u64, Bytes)>,
    ahead: VecDeque<Fetched>,
}

impl ObjectReader {
    pub(in crate::storage) fn new(object: &Arc<Object>, access: Access) -> Self {
        let at = if let Access::Range(range) = &access { range.start } else { 0 };
        Self { object: Arc::clone(object), access, at, piece: None, ahead: VecDeque::new() }
    }

    /// A reader that fetches nothing ahead of the first piece.
    pub(in crate::storage) fn of_the_start(object: &Arc<Object>) -> Self {
        Self::new(object, Access::Range(0..FIRST[0]))
    }

    /// Begins to fetch the first bytes.
    pub(in crate::storage) fn prefetch(&mut self) {
        let first = self.piece_at(self.at);
        if self.ahead.is_empty() && !first.is_empty() {
            self.ahead.extend(self.object.begin_ahead(first));
        }
    }

    /// The range that is fetched for the byte `at`; empty at the end.
    fn piece_at(&self, at: u64) -> Range<u64> {
        let size = self.object.stat().size;
        if at >= size {
            return at..at;
        }
        let range = match &self.access {
            Access::Scattered(_) => return at..(at + SCATTERED).min(size).max(at),
            // Behind the range the reader still reads as asked.
            Access::Range(range) if range.contains(&at) => range.start..range.end.min(size),
            Access::Range(_) => 0..size,
        };
        let (start, end) = match FIRST.iter().position(|end| at < *end) {
            Some(0) => (0, FIRST[0]),
            Some(number) => (FIRST[number - 1], FIRST[number]),
            None => (at / PIECE * PIECE, (at / PIECE + 1) * PIECE),
        };
        start.max(range.start)..end.min(range.end).max(at)
    }

    /// Brings the piece with the next byte. Returns whether there is one.
    fn bring(&mut self) -> io::Result<bool> {
        let holds =
            |start: u64, bytes: &Bytes, at: u64| (start..start + bytes.len() as u64).contains(&at);
        if self.piece.as_ref().is_some_and(|(start, bytes)| holds(*start, bytes, self.at)) {
            return Ok(true);
        }
        let wanted = self.piece_at(self.at);
        if wanted.is_empty() {
            return Ok(false);
        }
        self.piece = None;
        while self.ahead.front().is_some_and(|first| first.range.end <= self.at) {
            self.ahead.pop_front();
        }
        let is_begun = self.ahead.front().is_some_and(|first| first.range.contains(&self.at));
        let is_in_order = matches!(self.access, Access::Range(_));
        if is_in_order && !is_begun {
            // The reader was sent to another place.
            self.ahead.clear();
        }
        let begun = if is_begun { self.ahead.pop_front() } else { None };
        let first = begun.unwrap_or_else(|| self.object.begin(wanted));
        let (start, end) = (first.range.start, first.range.end);
        self.go_ahead(end);
        self.piece = Some((start, first.wait()?));
        Ok(true)
    }

    /// Begins to fetch the pieces from `end` on, or the next scattered stretches.
    fn go_ahead(&mut self, end: u64) {
        let last = match &mut self.access {
            Access::Range(range) => range.end.min(self.object.stat().size),
            Access::Scattered(coming) => {
                while self.ahead.len() < STRETCHES_AHEAD
                    && let Some(next) = coming.pop_front()
                {
                    let stretch = next..(next + SCATTERED).min(self.object.stat().size);
                    if next >= end && !stretch.is_empty() {
                        let Some(begun) = self.object.begin_ahead(stretch) else { break };
                        self.ahead.push_back(begun);
                    }
                }
                return;
            }
        };
        let mut next = self.ahead.back().map_or(end, |last| last.range.end);
        while self.ahead.len() < PIECES_AHEAD && next < last {
            let Some(begun) = self.object.begin_ahead(self.piece_at(next)) else { break };
            next = begun.range.end;
            self.ahead.push_back(begun);
        }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.bring()? {
            return Ok(0);
        }
        let Some((start, bytes)) = &self.piece else { return Ok(0) };
        let from = usize::try_from(self.at - start).expect("it lies in the piece");
        let read = buffer.len().min(bytes.len() - from);
        buffer[..read].copy_from_slice(&bytes[from..from + read]);
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.at, by),
            SeekFrom::End(by) => (self.object.stat().size, by),
        };
        let refuse = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the file");
        self.at = from.checked_add_signed(by).ok_or_else(refuse)?;
        Ok(self.at)
    }
}
