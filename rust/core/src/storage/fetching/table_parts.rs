//! [`TableParts`]: the parts of an object that a reader of tables needs, fetched ahead.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use super::object::{Fetched, Object};

/// Bytes of a request.
const PIECE: u64 = 8 << 20;

/// Bytes between two needed parts that are fetched with them rather than by a further request.
const GAP: u64 = 256 << 10;

/// Pieces that are fetched ahead of the one that is read.
const PIECES_AHEAD: usize = 4;

/// Bytes at the end that are fetched first: the footers of most files.
const TAIL: u64 = 64 << 10;

/// Bytes that are fetched at least, if no plan names the parts that are needed.
const LOOSE: u64 = 64 << 10;

/// Files up to this many bytes are fetched whole.
const SMALL: u64 = 1 << 20;

/// Such parts that are kept.
const LOOSE_KEPT: usize = 16;

/// The parts of an object that a reader of tables needs. Clones share the fetched bytes.
#[derive(Clone, Debug)]
pub(crate) struct TableParts {
    object: Arc<Object>,
    parts: Arc<Mutex<FetchedParts>>,
}

#[derive(Debug, Default)]
struct FetchedParts {
    /// The planned pieces, in order.
    pieces: Vec<PlannedRange>,
    /// The beginnings of the groups of the file, in order. Earlier pieces are let go.
    groups: Vec<u64>,
    /// Parts that no plan has, and their beginnings.
    loose: Vec<(u64, Bytes)>,
    /// The end of the file, while it is being fetched.
    tail: Option<Fetched>,
}

#[derive(Debug)]
struct PlannedRange {
    range: Range<u64>,
    state: PartState,
}

#[derive(Debug)]
enum PartState {
    Away,
    Begun(Fetched),
    Here(Bytes),
}

impl TableParts {
    pub(in crate::storage) fn new(object: &Arc<Object>) -> Self {
        let size = object.stat().size;
        let mut parts = FetchedParts::default();
        if size <= SMALL && size > 0 {
            parts.pieces.push(PlannedRange { range: 0..size, state: PartState::Away });
        }
        Self { object: Arc::clone(object), parts: Arc::new(Mutex::new(parts)) }
    }

    /// Begins to fetch the bytes that are read first: the end of the file, or all of a small one.
    pub(in crate::storage) fn prefetch(&self) {
        let size = self.object.stat().size;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        match parts.pieces.first_mut() {
            Some(whole) if matches!(whole.state, PartState::Away) => {
                if let Some(begun) = self.object.begin_ahead(whole.range.clone()) {
                    whole.state = PartState::Begun(begun);
                }
            }
            Some(_) => {}
            None => parts.tail = self.object.begin_ahead(size.saturating_sub(TAIL)..size),
        }
    }

    /// Plans the fetching of groups: for each its beginning, and the ranges that are needed of it.
    pub(crate) fn plan(&self, groups: &[(u64, Vec<Range<u64>>)]) {
        let size = self.object.stat().size;
        if size <= SMALL {
            return;
        }
        let mut needed: Vec<Range<u64>> =
            groups.iter().flat_map(|(_, ranges)| ranges.iter().cloned()).collect();
        needed.retain(|range| range.start < range.end && range.end <= size);
        needed.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in needed {
            match joined.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        let cut = |range: Range<u64>| {
            let count = (range.end - range.start).div_ceil(PIECE);
            (0..count).map(move |number| {
                let start = range.start + number * PIECE;
                PlannedRange {
                    range: start..(start + PIECE).min(range.end),
                    state: PartState::Away,
                }
            })
        };
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.pieces = joined.into_iter().flat_map(cut).collect();
        parts.groups = groups.iter().map(|(start, _)| *start).collect();
        parts.groups.sort_unstable();
    }

    /// The bytes of a range.
    pub(crate) fn bytes(&self, range: Range<u64>) -> io::Result<Bytes> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let first = parts.pieces.partition_point(|piece| piece.range.end <= range.start);
        let is_planned =
            parts.pieces.get(first).is_some_and(|piece| piece.range.start <= range.start);
        if !is_planned {
            return self.loose(&mut parts, range);
        }
        parts.release_before(range.start);
        let mut last = first;
        while parts.pieces[last].range.end < range.end {
            let next = parts.pieces.get(last + 1).map(|piece| piece.range.start);
            if next != Some(parts.pieces[last].range.end) {
                return self.loose(&mut parts, range);
            }
            last += 1;
        }
        for piece in &mut parts.pieces[first..=last] {
            piece.begin(&self.object);
        }
        let ahead = (last + 1 + PIECES_AHEAD).min(parts.pieces.len());
        for piece in &mut parts.pieces[last + 1..ahead] {
            if matches!(piece.state, PartState::Away) {
                let Some(begun) = self.object.begin_ahead(piece.range.clone()) else { break };
                piece.state = PartState::Begun(begun);
            }
        }
        let mut joined = BytesMut::new();
        for piece in &mut parts.pieces[first..=last] {
            let start = piece.range.start;
            let bytes = piece.wait(&self.object)?;
            let cut = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
            let part = bytes.slice(cut(range.start)..cut(range.end).min(bytes.len()));
            if first == last {
                return Ok(part);
            }
            joined.extend_from_slice(&part);
        }
        Ok(joined.freeze())
    }

    /// The bytes of a range that is not planned.
    fn loose(&self, parts: &mut FetchedParts, range: Range<u64>) -> io::Result<Bytes> {
        let size = self.object.stat().size;
        let holds = |(start, bytes): &&(u64, Bytes)| {
            *start <= range.start && range.end <= start + bytes.len() as u64
        };
        let cut = |start: u64, bytes: &Bytes| {
            let at = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
            bytes.slice(at(range.start)..at(range.end))
        };
        if let Some((start, bytes)) = parts.loose.iter().find(holds) {
            return Ok(cut(*start, bytes));
        }
        let tail = size.saturating_sub(TAIL);
        let wanted = if range.start >= tail {
            tail..size
        } else {
            range.start..(range.start + LOOSE).max(range.end).min(size)
        };
        let start = wanted.start;
        let begun = parts.tail.take_if(|tail| tail.range == wanted);
        let bytes = begun.unwrap_or_else(|| self.object.begin(wanted)).wait()?;
        let part = cut(start, &bytes);
        if parts.loose.len() == LOOSE_KEPT {
            // The first one is the tail, which is asked for again.
            parts.loose.remove(1);
        }
        parts.loose.push((start, bytes));
        Ok(part)
    }

    /// A reader from `start` on.
    pub(crate) fn reader(&self, start: u64) -> TablePartsReader {
        TablePartsReader { ranged: self.clone(), at: start }
    }
}

impl FetchedParts {
    /// Lets go of the pieces before the group that holds byte `at`.
    fn release_before(&mut self, at: u64) {
        let group = self.groups.partition_point(|start| *start <= at);
        let Some(start) = group.checked_sub(1).map(|group| self.groups[group]) else { return };
        for piece in &mut self.pieces {
            if piece.range.end > start {
                break;
            }
            piece.state = PartState::Away;
        }
    }
}

impl PlannedRange {
    fn begin(&mut self, object: &Object) {
        if matches!(self.state, PartState::Away) {
            self.state = PartState::Begun(object.begin(self.range.clone()));
        }
    }

    fn wait(&mut self, object: &Object) -> io::Result<Bytes> {
        self.begin(object);
        let bytes = match std::mem::replace(&mut self.state, PartState::Away) {
            PartState::Here(bytes) => bytes,
            PartState::Begun(begun) => begun.wait()?,
            PartState::Away => unreachable!("it was begun"),
        };
        self.state = PartState::Here(bytes.clone());
        Ok(bytes)
    }
}

/// Reads bytes of an object from a place on.
#[derive(Debug)]
pub(crate) struct TablePartsReader {
    ranged: TableParts,
    at: u64,
}

impl Read for TablePartsReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.ranged.object.stat().size;
        let end = (self.at.saturating_add(buffer.len() as u64)).min(size);
        if end <= self.at {
            return Ok(0);
        }
        // No further than the piece, so that the header of a last page asks for no other bytes.
        let end = self.ranged.end_of_piece(self.at).map_or(end, |last| last.min(end));
        let bytes = self.ranged.bytes(self.at..end)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl TableParts {
    /// The end of the planned piece that holds byte `at`.
    fn end_of_piece(&self, at: u64) -> Option<u64> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let first = parts.pieces.partition_point(|piece| piece.range.end <= at);
        parts
            .pieces
            .get(first)
            .filter(|piece| piece.range.contains(&at))
            .map(|piece| piece.range.end)
    }
}

impl Seek for TablePartsReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.at, by),
            SeekFrom::End(by) => (self.ranged.object.stat().size, by),
        };
        let refuse = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the file");
        self.at = from.checked_add_signed(by).ok_or_else(refuse)?;
        Ok(self.at)
    }
}
