//! Merging long words a window at a time, so that what is looked at stays near the core.
//!
//! Merges on both sides of a boundary that none of them crosses know nothing of each other. So tokens are what a word
//! becomes if each two neighbours are what their own text becomes: the first merge to cross a boundary of theirs would
//! cross it in the text of these two as well. Two windows that begin at a boundary and have a token in common, at the
//! same place, can therefore be joined there: all neighbours are neighbours in one of the two.

use super::buckets::Buckets;
use super::{Merges, Symbol};

/// Symbols of a window: a thousand and more of them stay in the first two levels of caches.
const WINDOW: usize = 2048;

/// How far the next window reaches back into one, so that they meet: some of the longest tokens there are.
const OVERLAP: usize = 256;

/// Where a token begins in the word, and its symbol.
type Token = (u32, Symbol);

/// What merging long words needs, kept for the next one.
#[derive(Default)]
pub(crate) struct Windows {
    buckets: Buckets,
    /// What the word becomes as far as it was looked at.
    tokens: Vec<Token>,
    /// What the next window becomes.
    next: Vec<Token>,
}

impl Windows {
    /// Merges `word` in place; `initial(at)` is what the symbols at `at` and behind it become.
    pub(super) fn merge(
        &mut self,
        merges: &Merges,
        word: &mut Vec<Symbol>,
        initial: impl Fn(usize) -> Symbol,
    ) {
        self.merge_by::<WINDOW, OVERLAP>(merges, word, initial);
    }

    pub(super) fn merge_by<const WINDOW: usize, const OVERLAP: usize>(
        &mut self,
        merges: &Merges,
        word: &mut Vec<Symbol>,
        initial: impl Fn(usize) -> Symbol,
    ) {
        let Self { buckets, tokens, next } = self;
        let mut run = |from: usize, end: usize, tokens: &mut Vec<Token>| {
            tokens.clear();
            let left = buckets.merge(merges, &word[from..end], |at| initial(from + at));
            tokens.extend(left.map(|(at, symbol)| (place(from) + at, symbol)));
        };
        let mut end = word.len().min(WINDOW);
        run(0, end, tokens);
        let mut overlap = OVERLAP;
        while end < word.len() {
            let first = tokens.partition_point(|(at, _)| *at as usize + overlap <= end);
            let first = first.saturating_sub(1);
            let from = tokens[first].0 as usize;
            if end - from >= WINDOW {
                // They do not meet within a window: that is rare, and only costs time.
                end = word.len();
                run(0, end, tokens);
                break;
            }
            let next_end = word.len().min(from + WINDOW);
            run(from, next_end, next);
            let Some((kept, joined)) = common((&tokens[first..], end), (next, next_end)) else {
                overlap *= 2;
                continue;
            };
            tokens.truncate(first + kept);
            tokens.extend_from_slice(&next[joined..]);
            (end, overlap) = (next_end, OVERLAP);
        }
        word.clear();
        word.extend(tokens.iter().map(|(_, symbol)| symbol));
    }
}

/// The places in two lists, each with the end of its last token, of the first token that both have.
fn common((a, a_end): (&[Token], usize), (b, b_end): (&[Token], usize)) -> Option<(usize, usize)> {
    let end = |tokens: &[Token], at: usize, last: usize| {
        tokens.get(at + 1).map_or(place(last), |(start, _)| *start)
    };
    let (mut i, mut j) = (0, 0);
    while let (Some(left), Some(right)) = (a.get(i), b.get(j)) {
        if left == right && end(a, i, a_end) == end(b, j, b_end) {
            return Some((i, j));
        }
        if left.0 <= right.0 {
            i += 1;
        } else {
            j += 1;
        }
    }
    None
}

#[expect(clippy::cast_possible_truncation, reason = "texts are shorter than 4 GiB")]
fn place(at: usize) -> u32 {
    at as u32
}
