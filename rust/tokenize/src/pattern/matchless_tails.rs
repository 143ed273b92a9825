//! Positions from which a pattern is known to match nothing more.
//!
//! A search for `a+b` in a run of `a` reads the whole run from each of its letters, and finds no `b`. A part
//! of the text that one search has read without a match is not read again by the next one. So the time is
//! linear in the text, and not quadratic.

use std::collections::HashSet;

/// The distance in bytes between two remembered positions: a smaller one takes more memory, and a larger one
/// more time.
const BYTES_BETWEEN: usize = 128;

/// A search that finds no further match: the number of the split, the end of the searched text, the position,
/// and the state.
type Tail = (u8, u32, u32, u16);

/// The remembered searches of one stretch of text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tails(Option<HashSet<Tail>>);

/// The positions that one search has passed since its last match.
pub(super) struct PassedPositions<'a> {
    tails: &'a mut Tails,
    split: u8,
    end: usize,
    since: Vec<Tail>,
}

impl<'a> PassedPositions<'a> {
    /// A search by the split numbered `split`, in a text that ends at `end`.
    pub(super) fn new(tails: &'a mut Tails, split: usize, end: usize) -> Self {
        let split = u8::try_from(split).unwrap_or(u8::MAX);
        Self { tails, split, end, since: Vec::new() }
    }

    /// Records a match: the positions before it are not remembered.
    #[inline]
    pub(super) fn matched(&mut self) {
        self.since.clear();
    }

    /// Records that the search moves from one position to the next; returns `false` if nothing is matched
    /// from there on.
    #[inline]
    pub(super) fn step(&mut self, from: usize, to: usize, state: u16) -> bool {
        from / BYTES_BETWEEN == to / BYTES_BETWEEN || self.come_by(to, state)
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

    /// Remembers the passed positions: no match followed them.
    pub(super) fn finish(self) {
        if !self.since.is_empty() {
            self.tails.0.get_or_insert_default().extend(self.since);
        }
    }
}
