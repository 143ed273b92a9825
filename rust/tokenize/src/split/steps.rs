//! A sequence of splits by patterns; each splits the pieces of the one before.

use super::split_cursor::{SplitCursor, position};
use crate::pattern::{Automaton, Tails};

/// The treatment of the delimiters by a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// Each delimiter is a piece.
    Isolated,
    /// Adjacent matches are one piece.
    Contiguous,
    /// A delimiter ends the piece before it.
    MergedWithPrevious,
    /// A delimiter begins the piece after it.
    MergedWithNext,
    /// Delimiters are removed from the text: see [`SplitStep::kept`].
    Removed,
}

/// One split.
#[derive(Debug)]
pub(crate) struct SplitStep {
    pub(crate) automaton: Automaton,
    pub(crate) behavior: Behavior,
    /// True if the delimiters are the texts between the matches.
    pub(crate) invert: bool,
}

/// A match, or the text before the next match.
#[derive(Clone, Copy)]
struct SplitItem {
    end: usize,
    /// True if the item is a delimiter.
    delimits: bool,
}

impl SplitStep {
    /// The item at `at`, which is before the end of `text`; the part that is being split begins at `from`.
    #[inline]
    fn item(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        level: usize,
        tails: &mut Tails,
    ) -> SplitItem {
        let matched = self.automaton.match_at(text, from, at, level, tails);
        let end = matched.unwrap_or_else(|| self.before(text, from, at, level, tails));
        SplitItem { end, delimits: matched.is_some() != self.invert }
    }

    /// The start of the first match after `at`, or the end of the text.
    #[cold]
    fn before(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        level: usize,
        tails: &mut Tails,
    ) -> usize {
        let found = self.automaton.find(text, from, at, level, tails);
        found.map_or(text.len(), |found| found.0)
    }

    /// Calls `piece` with each part of `text[from..]` that is not a delimiter.
    pub(crate) fn kept(&self, text: &[u8], from: usize, mut piece: impl FnMut(usize, usize)) {
        let (mut at, mut tails) = (from, Tails::default());
        while at < text.len() {
            let item = self.item(text, from, at, 0, &mut tails);
            if !item.delimits {
                piece(at, item.end);
            }
            at = item.end;
        }
    }

    /// The end of the piece that begins at `at`.
    #[inline]
    fn piece_end(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        level: usize,
        tails: &mut Tails,
    ) -> usize {
        let first = self.item(text, from, at, level, tails);
        let mut next = |item: SplitItem| {
            (item.end < text.len()).then(|| self.item(text, from, item.end, level, tails))
        };
        match (self.behavior, first.delimits) {
            (Behavior::Contiguous, _) => {
                let mut last = first;
                while let Some(item) = next(last).filter(|item| item.delimits == first.delimits) {
                    last = item;
                }
                last.end
            }
            (Behavior::MergedWithPrevious, false) => {
                next(first).filter(|item| item.delimits).unwrap_or(first).end
            }
            (Behavior::MergedWithNext, true) => {
                next(first).filter(|item| !item.delimits).unwrap_or(first).end
            }
            _ => first.end,
        }
    }
}

/// Writes the ends of the next pieces, as [`super::Splitter::fill`].
pub(super) fn fill(
    steps: &[SplitStep],
    text: &[u8],
    cursor: &mut SplitCursor,
    ends: &mut [u32],
) -> usize {
    if let [step] = steps
        && step.behavior == Behavior::Isolated
    {
        return alone(step, text, cursor, ends);
    }
    let mut count = 0;
    while count < ends.len() && cursor.at < text.len() {
        // The first split whose current part is used up; this split and the ones after it cut their next
        // parts.
        let mut level = cursor.parts[..steps.len()]
            .iter()
            .position(|part| part.1 as usize <= cursor.at)
            .unwrap_or(steps.len());
        while level < steps.len() {
            let (from, to) = match level.checked_sub(1) {
                None => (cursor.begin, text.len()),
                Some(outer) => {
                    let (from, to) = cursor.parts[outer];
                    (from as usize, to as usize)
                }
            };
            let (at, tails) = (cursor.at, &mut cursor.tails);
            let end = steps[level].piece_end(&text[..to], from, at, level, tails);
            cursor.parts[level] = (position(cursor.at), position(end));
            level += 1;
        }
        cursor.at = cursor.parts[steps.len() - 1].1 as usize;
        ends[count] = position(cursor.at);
        count += 1;
    }
    count
}

/// As [`fill`], for a single split whose matches are all pieces.
fn alone(step: &SplitStep, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
    let (mut count, mut at) = (0, cursor.at);
    for end in ends {
        if at >= text.len() {
            break;
        }
        at = step.item(text, cursor.begin, at, 0, &mut cursor.tails).end;
        *end = position(at);
        count += 1;
    }
    cursor.at = at;
    count
}
