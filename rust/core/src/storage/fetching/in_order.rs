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
pub(in crate::storage) const SCATTERED: u64 = 16 << 10;

/// Scattered stretches that are fetched ahead, of no more bytes than pieces are.
const STRETCHES_AHEAD: usize = 24;

/// The order in which a reader will be asked for bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadOrder {
    /// From the beginning to the end of a range.
    Range(Range<u64>),
    /// In stretches that lie apart; those that are known, in order.
    Scattered(VecDeque<Range<u64>>),
}

/// Fetched bytes, and the place of the first.
#[derive(Debug)]
struct FetchedPiece {
    start: u64,
    bytes: Bytes,
}

impl FetchedPiece {
    fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }
}

/// The bytes of an object.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    object: Arc<Object>,
    access: ReadOrder,
    at: u64,
    /// The piece that is read, last. The scattered one before it stays: who looks for the end of a stretch behind it goes back to its
    /// beginning.
    pieces: Vec<FetchedPiece>,
    ahead: VecDeque<Fetched>,
}

impl ObjectReader {
    pub(in crate::storage) fn new(object: &Arc<Object>, access: ReadOrder) -> Self {
        let at = if let ReadOrder::Range(range) = &access { range.start } else { 0 };
        let (pieces, ahead) = (Vec::new(), VecDeque::new());
        Self { object: Arc::clone(object), access, at, pieces, ahead }
    }

    /// A reader that fetches nothing ahead of the first piece.
    pub(in crate::storage) fn of_the_start(object: &Arc<Object>) -> Self {
        Self::new(object, ReadOrder::Range(0..FIRST[0]))
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
            ReadOrder::Scattered(_) => return at..(at + SCATTERED).min(size).max(at),
            // Behind the range the reader still reads as asked.
            ReadOrder::Range(range) if range.contains(&at) => range.start..range.end.min(size),
            ReadOrder::Range(_) => 0..size,
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
        if let Some(at) = self.pieces.iter().position(|piece| piece.range().contains(&self.at)) {
            let piece = self.pieces.remove(at);
            self.pieces.push(piece);
            return Ok(true);
        }
        let wanted = self.known_stretch().unwrap_or_else(|| self.piece_at(self.at));
        if wanted.is_empty() {
            return Ok(false);
        }
        let kept = usize::from(matches!(self.access, ReadOrder::Scattered(_)));
        self.pieces.drain(..self.pieces.len().saturating_sub(kept));
        while self.ahead.front().is_some_and(|first| first.range.end <= self.at) {
            self.ahead.pop_front();
        }
        let is_begun = self.ahead.front().is_some_and(|first| first.range.contains(&self.at));
        let is_in_order = matches!(self.access, ReadOrder::Range(_));
        if is_in_order && !is_begun {
            // The reader was sent to another place.
            self.ahead.clear();
        }
        let begun = if is_begun { self.ahead.pop_front() } else { None };
        let first = begun.unwrap_or_else(|| self.object.begin(wanted));
        let (start, end) = (first.range.start, first.range.end);
        self.prefetch_from(end);
        self.pieces.push(FetchedPiece { start, bytes: first.wait()? });
        Ok(true)
    }

    /// The next scattered stretch, if it has the next byte.
    fn known_stretch(&mut self) -> Option<Range<u64>> {
        let ReadOrder::Scattered(coming) = &mut self.access else { return None };
        coming.front().filter(|next| next.contains(&self.at))?;
        coming.pop_front().map(|stretch| fetched_of(&stretch, &self.object))
    }

    /// Begins to fetch the pieces from `end` on, or the next scattered stretches.
    fn prefetch_from(&mut self, end: u64) {
        let last = match &mut self.access {
            ReadOrder::Range(range) => range.end.min(self.object.stat().size),
            ReadOrder::Scattered(coming) => {
                let length = |fetched: &Fetched| fetched.range.end - fetched.range.start;
                let mut held: u64 = self.ahead.iter().map(length).sum();
                while self.ahead.len() < STRETCHES_AHEAD
                    && held < PIECE * PIECES_AHEAD as u64
                    && let Some(stretch) = coming.pop_front()
                {
                    let stretch = fetched_of(&stretch, &self.object);
                    if stretch.start >= end && !stretch.is_empty() {
                        let Some(begun) = self.object.begin_ahead(stretch) else { break };
                        held += length(&begun);
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

/// The part of a scattered stretch that is fetched at once.
fn fetched_of(stretch: &Range<u64>, object: &Object) -> Range<u64> {
    stretch.start..stretch.end.min(stretch.start + PIECE).min(object.stat().size)
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.bring()? {
            return Ok(0);
        }
        let Some(FetchedPiece { start, bytes }) = self.pieces.last() else { return Ok(0) };
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
