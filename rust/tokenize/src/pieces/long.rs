//! The cache of one thread for pieces that are too long, or have too many ids, for the cache of short pieces.

use super::hash;
use crate::hardware::prefetch;

/// Bytes of the longest piece that is stored: longer pieces hardly ever recur.
const LONGEST: usize = 256;

/// The average size of an entry in words: 24 bytes of text, six ids, two lengths.
const ENTRY_WORDS: usize = 14;

/// Pieces and their ids, one entry after the other; when the memory is full, all entries are dropped.
pub(crate) struct LongCache {
    /// For each hash: its upper half, and the position of the entry in `memory` plus one. Free slots are
    /// zeros, so that memory is touched only as it is used.
    slots: Vec<(u32, u32)>,
    /// The entries: byte length, number of ids, the bytes padded to words, the ids.
    memory: Vec<u32>,
    capacity: usize,
}

/// A free slot.
const FREE: (u32, u32) = (0, 0);

impl LongCache {
    /// A cache of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let capacity = bytes / 4 * 3 / 4;
        let slots = (capacity / ENTRY_WORDS).max(1);
        Self { slots: vec![FREE; slots.next_power_of_two()], memory: Vec::new(), capacity }
    }

    fn place(&self, hash: u64) -> (usize, u32) {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (low, high) = (hash as usize, (hash >> 32) as u32);
        (low & (self.slots.len() - 1), high)
    }

    /// Prefetches the slot that [`Self::get`] reads first.
    #[inline]
    pub(crate) fn prefetch(&self, piece: &[u8], part: bool) {
        if piece.len() <= LONGEST {
            let (place, _) = self.place(hash(piece) ^ u64::from(part));
            prefetch(self.slots.as_ptr().wrapping_add(place));
        }
    }

    /// The ids of `piece`, if the cache has it; `part` tells parts of longer pieces from whole pieces.
    #[inline]
    pub(crate) fn get(&self, piece: &[u8], part: bool) -> Option<&[u32]> {
        if piece.len() > LONGEST {
            return None;
        }
        let (place, tag) = self.place(hash(piece) ^ u64::from(part));
        let (found, next) = self.slots[place];
        if found != tag {
            return None;
        }
        let entry = self.memory.get((next as usize).checked_sub(1)?..)?;
        let (header, rest) = entry.split_first_chunk::<2>()?;
        if header[0] != Self::length(piece, part) {
            return None;
        }
        let (words, last) = words(piece);
        let (text, rest) = rest.split_at_checked(words.len())?;
        let (end, ids) = rest.split_at_checked(last.iter().len())?;
        let same = text.iter().zip(words).all(|(word, bytes)| *word == u32::from_le_bytes(*bytes));
        (same && end == last.as_slice()).then(|| ids.get(..header[1] as usize)).flatten()
    }

    /// Keeps the cache within so many bytes from now on.
    pub(crate) fn keep_within(&mut self, bytes: usize) {
        self.capacity = self.capacity.min(bytes / 4 * 3 / 4);
        if self.memory.len() > self.capacity {
            self.memory = Vec::new();
            self.slots.fill(FREE);
        }
    }

    /// Bytes of memory that the cache takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.slots[..]) + 4 * self.memory.capacity()
    }

    /// Stores the ids of a piece.
    pub(crate) fn insert(&mut self, piece: &[u8], part: bool, ids: &[u32]) {
        if piece.len() > LONGEST {
            return;
        }
        if self.memory.len() + 2 + piece.len() / 4 + 1 + ids.len() > self.capacity {
            self.memory.clear();
            self.slots.fill(FREE);
        }
        let (place, tag) = self.place(hash(piece) ^ u64::from(part));
        let (Ok(next), Ok(count)) =
            (u32::try_from(self.memory.len() + 1), u32::try_from(ids.len()))
        else {
            return;
        };
        self.slots[place] = (tag, next);
        self.memory.extend([Self::length(piece, part), count]);
        let (words, last) = words(piece);
        self.memory.extend(words.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        self.memory.extend(last);
        self.memory.extend_from_slice(ids);
    }

    /// The length of a piece, and whether it is a part, as one number.
    fn length(piece: &[u8], part: bool) -> u32 {
        u32::try_from(piece.len()).unwrap_or(u32::MAX) << 1 | u32::from(part)
    }
}

/// The bytes as words, and the remaining bytes as one more word.
///
/// The last word is put together in a register. Writing it in parts and reading it back at once took a tenth
/// of the time of encoding base64 (llama3, AMD EPYC, 2026-11-22), because the read waits for all of the
/// writes.
fn words(piece: &[u8]) -> (&[[u8; 4]], Option<u32>) {
    let (words, rest) = piece.as_chunks();
    let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    (words, (!rest.is_empty()).then_some(last))
}
