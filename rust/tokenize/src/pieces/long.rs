//! What a thread has seen of pieces that are longer, or have more ids, than an entry of the short cache.

use super::hash;
use crate::machine::prefetch;

/// The longest piece that is remembered, in bytes: longer ones hardly come again.
const LONGEST: usize = 256;

/// Average words of memory an entry takes: 24 bytes of text, six ids, two lengths.
const ENTRY_WORDS: usize = 14;

/// Pieces and their ids, one behind the other; when the memory is full, all are forgotten at once.
pub(crate) struct LongCache {
    /// For each hash: its upper half, and one more than where the piece stands in `memory`; zeros where nothing is, so
    /// that memory is touched only as it is used.
    slots: Vec<(u32, u32)>,
    /// Byte length, number of ids, the bytes padded to words, the ids.
    memory: Vec<u32>,
    capacity: usize,
}

/// A slot that holds nothing.
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

    /// Has what [`Self::get`] looks at first brought near.
    #[inline]
    pub(crate) fn prefetch(&self, piece: &[u8], part: bool) {
        if piece.len() <= LONGEST {
            let (place, _) = self.place(hash(piece) ^ u64::from(part));
            prefetch(self.slots.as_ptr().wrapping_add(place));
        }
    }

    /// The ids of `piece`, if it is there; `part` tells parts of longer pieces from whole ones.
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

    /// Remembers the ids of a piece.
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

    /// The length, and whether the piece is a part, as one number.
    fn length(piece: &[u8], part: bool) -> u32 {
        u32::try_from(piece.len()).unwrap_or(u32::MAX) << 1 | u32::from(part)
    }
}

/// The bytes as words, and what is left over as one more.
///
/// That one is put together in a register. Written in parts and read back at once, it was a tenth of the time of base64
/// (llama3, AMD EPYC, 2026-11-22): the reading waits for all that was written.
fn words(piece: &[u8]) -> (&[[u8; 4]], Option<u32>) {
    let (words, rest) = piece.as_chunks();
    let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    (words, (!rest.is_empty()).then_some(last))
}
