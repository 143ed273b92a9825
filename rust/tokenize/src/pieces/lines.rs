//! A table from short pieces to a number each: one cache line a question.

use super::fold;
use super::key::Key;
use crate::machine::prefetch;

/// How many pieces a line holds.
const WIDTH: usize = 3;

/// Pieces a line holds on average: more would overflow into the next one too often.
const FILL: usize = 2;

/// A cache line of pieces; a key of zeros is a free place.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line {
    keys: [Key; WIDTH],
    values: [u32; WIDTH],
}

/// A table that never holds more pieces than it was made for.
pub(super) struct Lines {
    lines: Vec<Line>,
}

impl Lines {
    /// A table for up to `count` pieces.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { lines: vec![Line::default(); (count / FILL + 1).next_power_of_two()] }
    }

    #[inline]
    fn place(&self, key: Key) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are taken")]
        let hash = fold(key.low, key.high) as usize;
        hash & (self.lines.len() - 1)
    }

    /// Has what [`Self::get`] will look at brought near.
    #[inline]
    pub(super) fn prefetch(&self, key: Key) {
        prefetch(self.lines.as_ptr().wrapping_add(self.place(key)));
    }

    /// Adds a piece; `false` if it is there already.
    pub(super) fn insert(&mut self, key: Key, value: u32) -> bool {
        let mut place = self.place(key);
        loop {
            let line = &mut self.lines[place];
            for (known, place) in line.keys.iter_mut().zip(&mut line.values) {
                if *known == key {
                    return false;
                }
                if *known == Key::default() {
                    (*known, *place) = (key, value);
                    return true;
                }
            }
            place = (place + 1) & (self.lines.len() - 1);
        }
    }

    /// The number of a piece.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<u32> {
        let mut place = self.place(key);
        loop {
            let line = &self.lines[place];
            for (known, value) in line.keys.iter().zip(line.values) {
                if *known == key {
                    return Some(value);
                }
            }
            if line.keys[WIDTH - 1] == Key::default() {
                return None;
            }
            place = (place + 1) & (self.lines.len() - 1);
        }
    }

    /// The same pieces with other numbers.
    pub(super) fn map(&self, of: impl Fn(u32) -> u32) -> Self {
        let map = |line: &Line| {
            let mut line = *line;
            for (key, value) in line.keys.iter().zip(&mut line.values) {
                if *key != Key::default() {
                    *value = of(*value);
                }
            }
            line
        };
        Self { lines: self.lines.iter().map(map).collect() }
    }
}
