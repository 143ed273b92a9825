//! A hash table from short pieces to numbers: a look-up reads one cache line.

use super::key::PieceKey;
use super::mapped_memory::{Line, LineMemory};

/// The number of pieces in a line: six words of keys, then their numbers, and a byte that says whether a
/// piece overflowed to the next line. A key of zeros is a free entry.
const WIDTH: usize = 3;

/// The index of that byte in the last word.
const OVERFLOW_BYTE: usize = 4;

/// The most pieces of a line on average: with more, lines would overflow into the next one too often.
const FILL: usize = 2;

/// A table with room for a fixed number of pieces.
pub(super) struct PieceLines {
    memory: LineMemory,
    /// The number of lines, which is a power of two, minus one.
    mask: u32,
}

impl PieceLines {
    /// A table for up to `count` pieces.
    pub(super) fn with_capacity(count: usize) -> Self {
        let lines = (count / FILL + 1).next_power_of_two();
        let mask = u32::try_from(lines - 1).expect("a vocabulary has fewer than 2^32 tokens");
        Self { memory: LineMemory::new(lines).expect("the system has memory"), mask }
    }

    /// The line of a piece, unless it overflowed to a later one.
    #[inline]
    fn place(&self, key: PieceKey) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are taken")]
        let hash = key.hash() as u32;
        hash & self.mask
    }

    /// Prefetches the line that [`Self::get`] reads.
    #[inline]
    pub(super) fn prefetch(&self, key: PieceKey) {
        self.memory.prefetch(self.place(key) as usize);
    }

    /// Adds a piece; returns `false` if the table has it already.
    pub(super) fn insert(&mut self, key: PieceKey, value: u32) -> bool {
        let mut place = self.place(key);
        loop {
            let line = &mut self.memory.lines_mut()[place as usize];
            for index in 0..WIDTH {
                let known = key_of(line, index);
                if known == key {
                    return false;
                }
                if known == PieceKey::default() {
                    line[2 * index] = key.low.to_le_bytes();
                    line[2 * index + 1] = key.high.to_le_bytes();
                    set_value(line, index, value);
                    return true;
                }
            }
            line[7][OVERFLOW_BYTE] = 1;
            place = (place + 1) & self.mask;
        }
    }

    /// The number of a piece.
    #[inline]
    pub(super) fn get(&self, key: PieceKey) -> Option<u32> {
        let mut place = self.place(key);
        loop {
            let line = &self.memory.lines()[place as usize];
            if let Some(index) = (0..WIDTH).find(|index| key_of(line, *index) == key) {
                return Some(values(line)[index]);
            }
            if line[7][OVERFLOW_BYTE] == 0 {
                return None;
            }
            place = (place + 1) & self.mask;
        }
    }

    /// The same pieces, with the number `of(number)` for each.
    pub(super) fn map(&self, of: impl Fn(u32) -> u32) -> Self {
        let mut mapped = LineMemory::new(self.memory.lines().len()).expect("the system has memory");
        for (line, known) in mapped.lines_mut().iter_mut().zip(self.memory.lines()) {
            *line = *known;
            for index in (0..WIDTH).filter(|index| key_of(known, *index) != PieceKey::default()) {
                set_value(line, index, of(values(known)[index]));
            }
        }
        Self { memory: mapped, mask: self.mask }
    }
}

#[inline]
fn key_of(line: &Line, index: usize) -> PieceKey {
    let [low, high] = [line[2 * index], line[2 * index + 1]].map(u64::from_le_bytes);
    PieceKey { low, high }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "two numbers a word")]
fn values(line: &Line) -> [u32; WIDTH] {
    let [first, second] = [line[6], line[7]].map(u64::from_le_bytes);
    [first as u32, (first >> 32) as u32, second as u32]
}

fn set_value(line: &mut Line, index: usize, value: u32) {
    let at = 4 * (index % 2);
    line[6 + index / 2][at..at + 4].copy_from_slice(&value.to_le_bytes());
}
