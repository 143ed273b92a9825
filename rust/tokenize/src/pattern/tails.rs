//! Places from which a pattern is known to match nothing more.
//!
//! A search of `a+b` reads all letters `a` from every one of them on, to find no `b`. What one search has read in vain,
//! the next does not read again, so that the time grows with the text and not with its square.

use std::collections::HashSet;

/// Bytes between two places that are remembered: fewer take more memory, and more take longer to come by.
const APART: usize = 128;

/// A state in which nothing more is matched: the split it is of, the end of the text it searches, the place, and the state.
type Tail = (u8, u32, u32, u16);

/// The remembered places of one stretch of text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tails(Option<HashSet<Tail>>);

/// The places that one search has come by since it matched last.
pub(super) struct Passed<'a> {
    tails: &'a mut Tails,
    split: u8,
    end: usize,
    since: Vec<Tail>,
}

impl<'a> Passed<'a> {
    /// A search of a split in a text that ends at `end`.
    pub(super) fn new(tails: &'a mut Tails, split: usize, end: usize) -> Self {
        let split = u8::try_from(split).unwrap_or(u8::MAX);
        Self { tails, split, end, since: Vec::new() }
    }

    /// Says that the search has matched: what it came by led to something.
    #[inline]
    pub(super) fn matched(&mut self) {
        self.since.clear();
    }

    /// Says that the search goes from one place to the next; false if nothing more is matched from there on.
    #[inline]
    pub(super) fn step(&mut self, from: usize, to: usize, state: u16) -> bool {
        from / APART == to / APART || self.come_by(to, state)
    }

    #[cold]
    fn come_by(&mut self, at: usize, state: u16) -> bool {
        let (Ok(end), Ok(at)) = (u32::try_from(self.end), u32::try_from(at)) else { return true };
        let tail = (self.split, end, at, state);
        if self.tails.0.as_ref().is_some_and(|tails| tails.contains(&tail)) {
            return false;
        }
        self.since.push(tail);
        true
    }

    /// Says that nothing more was matched.
    pub(super) fn finish(self) {
        if !self.since.is_empty() {
            self.tails.0.get_or_insert_default().extend(self.since);
        }
    }
}
