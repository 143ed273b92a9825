//! Rows by the room they have left: the row with the least room that suffices, first in, first out.

use std::collections::{BTreeMap, VecDeque};

/// Rows that have room left, by how much.
pub(super) trait Spaces {
    /// The least room that a row has and that is at least `length`.
    fn least(&self, length: u32) -> Option<u32>;

    /// Takes the row that has waited longest with room for exactly `space` tokens.
    fn pop(&mut self, space: u32) -> Option<u32>;

    /// Remembers that `row` has room for `space` tokens.
    fn push(&mut self, space: u32, row: u32);
}

/// No row: rows are counted from 0 and are fewer than `u32::MAX`.
const NOBODY: u32 = u32::MAX;

/// A queue for each possible space, and a tree of bits over those that are not empty.
///
/// A search reads at most two words a level, and three levels reach 262,144 tokens. The queues are linked
/// lists through `next`, since a row waits in one queue at a time.
pub(super) struct Table {
    levels: Vec<Vec<u64>>,
    queues: Vec<Queue>,
    next: Vec<u32>,
}

#[derive(Clone)]
struct Queue {
    first: u32,
    last: u32,
}

impl Table {
    /// Room for spaces up to `max_length`.
    pub(super) fn new(max_length: u32) -> Self {
        let spaces = max_length as usize + 1;
        let mut levels = vec![vec![0; spaces.div_ceil(64)]];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            levels.push(vec![0; below.len().div_ceil(64)]);
        }
        Self {
            levels,
            queues: vec![Queue { first: NOBODY, last: NOBODY }; spaces],
            next: Vec::new(),
        }
    }

    fn mark(&mut self, mut space: usize) {
        for level in &mut self.levels {
            level[space / 64] |= 1 << (space % 64);
            space /= 64;
        }
    }

    fn unmark(&mut self, mut space: usize) {
        for level in &mut self.levels {
            level[space / 64] &= !(1 << (space % 64));
            if level[space / 64] != 0 {
                return;
            }
            space /= 64;
        }
    }

    /// The least marked space from `at` on.
    fn search(&self, mut at: usize) -> Option<usize> {
        let mut height = 0;
        loop {
            let word = self.levels.get(height)?.get(at / 64)? & (!0 << (at % 64));
            if word != 0 {
                at = at / 64 * 64 + word.trailing_zeros() as usize;
                break;
            }
            at = at / 64 + 1;
            height += 1;
        }
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + level[at].trailing_zeros() as usize;
        }
        Some(at)
    }
}

impl Spaces for Table {
    fn least(&self, length: u32) -> Option<u32> {
        let space = self.search(length as usize)?;
        Some(u32::try_from(space).expect("a space is at most `max_length`"))
    }

    fn pop(&mut self, space: u32) -> Option<u32> {
        let queue = &mut self.queues[space as usize];
        let row = Some(queue.first).filter(|&row| row != NOBODY)?;
        queue.first = self.next[row as usize];
        if queue.first == NOBODY {
            self.unmark(space as usize);
        }
        Some(row)
    }

    fn push(&mut self, space: u32, row: u32) {
        if self.next.len() <= row as usize {
            self.next.resize(row as usize + 1, NOBODY);
        }
        self.next[row as usize] = NOBODY;
        let queue = &mut self.queues[space as usize];
        let before = std::mem::replace(&mut queue.last, row);
        if queue.first == NOBODY {
            queue.first = row;
            self.mark(space as usize);
        } else {
            self.next[before as usize] = row;
        }
    }
}

/// A queue for each space that occurs: for rows so long that a table would dwarf the data.
#[derive(Default)]
pub(super) struct Tree(BTreeMap<u32, VecDeque<u32>>);

impl Spaces for Tree {
    fn least(&self, length: u32) -> Option<u32> {
        self.0.range(length..).next().map(|(&space, _)| space)
    }

    fn pop(&mut self, space: u32) -> Option<u32> {
        let queue = self.0.get_mut(&space)?;
        let row = queue.pop_front();
        if queue.is_empty() {
            self.0.remove(&space);
        }
        row
    }

    fn push(&mut self, space: u32, row: u32) {
        self.0.entry(space).or_default().push_back(row);
    }
}
