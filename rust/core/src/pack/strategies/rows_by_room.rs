//! Open rows by the room left. Finds the rows with the least sufficient room, first in, first out.

use std::collections::{BTreeMap, VecDeque};

use super::number_set::NumberSet;

/// A run of rows with the same room left and the same number of documents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EqualRows {
    pub(crate) first: u32,
    pub(crate) rows: u32,
    pub(crate) documents: u32,
}

/// Open rows, by the room left.
pub(crate) trait RowSpaces {
    /// The least room of a row that is at least `length`.
    fn least(&self, length: u32) -> Option<u32>;

    /// Removes the rows that have had room for exactly `space` tokens for longest.
    fn pop(&mut self, space: u32) -> Option<EqualRows>;

    /// Returns the unused part of the popped rows to the front of their queue.
    fn restore(&mut self, space: u32, rows: EqualRows);

    /// Appends `rows` to the queue of rows with room for `space` tokens.
    fn push(&mut self, space: u32, rows: EqualRows);
}

/// No entry: there are fewer than `u32::MAX`.
const NO_ENTRY: u32 = u32::MAX;

/// A queue for each possible space; the queues are linked lists in one arena.
pub(crate) struct SpaceTable {
    waiting: NumberSet,
    queues: Vec<RowQueue>,
    entries: Vec<QueueEntry>,
    unused: u32,
}

#[derive(Clone)]
struct RowQueue {
    first: u32,
    last: u32,
}

struct QueueEntry {
    rows: EqualRows,
    next: u32,
}

impl SpaceTable {
    /// A table for room up to `max_length`.
    pub(crate) fn new(max_length: u32) -> Self {
        Self {
            waiting: NumberSet::up_to(max_length),
            queues: vec![RowQueue { first: NO_ENTRY, last: NO_ENTRY }; max_length as usize + 1],
            entries: Vec::new(),
            unused: NO_ENTRY,
        }
    }

    fn entry(&mut self, rows: EqualRows, next: u32) -> u32 {
        let entry = QueueEntry { rows, next };
        if self.unused == NO_ENTRY {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("fewer entries than rows")
        } else {
            let at = self.unused;
            self.unused = std::mem::replace(&mut self.entries[at as usize], entry).next;
            at
        }
    }
}

impl RowSpaces for SpaceTable {
    fn least(&self, length: u32) -> Option<u32> {
        self.waiting.at_least(length)
    }

    fn pop(&mut self, space: u32) -> Option<EqualRows> {
        let queue = &mut self.queues[space as usize];
        let at = Some(queue.first).filter(|&at| at != NO_ENTRY)?;
        let entry = &mut self.entries[at as usize];
        queue.first = std::mem::replace(&mut entry.next, self.unused);
        self.unused = at;
        if queue.first == NO_ENTRY {
            self.waiting.remove(space);
        }
        Some(entry.rows)
    }

    fn restore(&mut self, space: u32, rows: EqualRows) {
        let first = self.queues[space as usize].first;
        let at = self.entry(rows, first);
        let queue = &mut self.queues[space as usize];
        queue.first = at;
        if first == NO_ENTRY {
            queue.last = at;
            self.waiting.insert(space);
        }
    }

    fn push(&mut self, space: u32, rows: EqualRows) {
        let RowQueue { first, last } = self.queues[space as usize];
        if first == NO_ENTRY {
            return self.restore(space, rows);
        }
        let before = &mut self.entries[last as usize].rows;
        if before.first + before.rows == rows.first && before.documents == rows.documents {
            before.rows += rows.rows;
            return;
        }
        let at = self.entry(rows, NO_ENTRY);
        self.entries[last as usize].next = at;
        self.queues[space as usize].last = at;
    }
}

/// A queue for each space that occurs: for rows so long that a table would be larger than the data.
#[derive(Default)]
pub(crate) struct SpaceTree(BTreeMap<u32, VecDeque<EqualRows>>);

impl RowSpaces for SpaceTree {
    fn least(&self, length: u32) -> Option<u32> {
        self.0.range(length..).next().map(|(&space, _)| space)
    }

    fn pop(&mut self, space: u32) -> Option<EqualRows> {
        let queue = self.0.get_mut(&space)?;
        let rows = queue.pop_front();
        if queue.is_empty() {
            self.0.remove(&space);
        }
        rows
    }

    fn restore(&mut self, space: u32, rows: EqualRows) {
        self.0.entry(space).or_default().push_front(rows);
    }

    fn push(&mut self, space: u32, rows: EqualRows) {
        self.0.entry(space).or_default().push_back(rows);
    }
}
