//! Merges long words one window at a time, so that the working memory stays in the nearer caches.
//!
//! If no merge crosses a boundary, the merges on its two sides are independent. So a list of tokens is the
//! encoding of a word if each two neighbouring tokens are the encoding of their own text: the first merge
//! across a boundary in the word would also cross it in the text of its two tokens. In the encoding of a
//! window, each two neighbours are such a pair, wherever the window begins. Two windows that have the same
//! token at the same place can therefore be joined there: each two neighbours of the joined list are
//! neighbours in one of the windows.

use std::ops::Range;

use super::buckets::Buckets;
use super::interleaved_words::InterleavedWord;
use super::last_merges::TOGETHER;
use super::merges::Merges;
use super::ranked_places::{SMALL, Symbol};
use crate::cancel_flag::CancelFlag;

/// The sizes of windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowSizes {
    /// The size of a window that is merged alone.
    pub(super) large: WindowSize,
    /// The size of a window that is merged where two interleaved windows have no common token.
    pub(super) small: WindowSize,
    /// The number of windows that are merged in step.
    pub(super) interleaved: usize,
    /// The average number of symbols of a token from which on windows are merged alone.
    pub(super) long_token: usize,
}

/// The length of a window, and its overlap with the next one. The overlap is as long as some of the longest
/// tokens, so that the two have a common token.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowSize {
    pub(super) window: usize,
    pub(super) overlap: usize,
}

/// The sizes in use. A large window has more than a thousand symbols, which stay in the first two levels of
/// caches. Interleaved, random letters take two thirds of the time that they take in large windows, and one
/// repeated letter takes a quarter more (llama3, AMD EPYC, 2026-11-22): most merges of long tokens are made
/// in two windows.
const SIZES: WindowSizes = WindowSizes {
    large: WindowSize { window: 2048, overlap: 256 },
    small: WindowSize { window: 96, overlap: 32 },
    interleaved: TOGETHER,
    long_token: 3,
};

/// The number of symbols from which on merging a word takes so long that it can be stopped.
const VERY_LONG: usize = 1 << 20;

/// A window that is merged in step with others.
type InterleavedWindow = InterleavedWord<SMALL>;

/// The overlap of each interleaved window with the one before it, so that the two have a common token.
const INTERLEAVED_OVERLAP: usize = 8;

/// The start of a token in the word, and its symbol.
type WindowToken = (u32, Symbol);

/// The buffers for merging long words, kept for the next word.
#[derive(Default)]
pub(crate) struct Windows {
    buckets: Buckets,
    /// The tokens of the word up to `end`.
    tokens: Vec<WindowToken>,
    /// The end of the merged part of the word.
    end: usize,
    /// The tokens of the next window.
    next: Vec<WindowToken>,
    interleaved: Vec<InterleavedWindow>,
    /// The flag that stops the merging of a very long word.
    pub(crate) stop: CancelFlag,
}

impl Windows {
    /// Merges `word` in place; `initial(at)` is the symbol that the symbols at `at` and after it merge into.
    pub(super) fn merge(
        &mut self,
        merges: &Merges,
        word: &mut Vec<Symbol>,
        initial: impl Fn(usize) -> Symbol,
    ) {
        self.merge_by(merges, word, initial, SIZES);
    }

    pub(super) fn merge_by(
        &mut self,
        merges: &Merges,
        word: &mut Vec<Symbol>,
        initial: impl Fn(usize) -> Symbol,
        sizes: WindowSizes,
    ) {
        self.tokens.clear();
        self.end = 0;
        // Ids of shorter words may go to a cache, so they have to be complete.
        let can_stop = word.len() > VERY_LONG;
        while self.end < word.len() && !(can_stop && self.stop.is_set()) {
            if self.tokens.len() * sizes.long_token >= self.end {
                self.in_step(merges, word, &initial, sizes);
            } else {
                self.alone(merges, word, &initial, sizes.large);
            }
        }
        word.clear();
        word.extend(self.tokens.iter().map(|(_, symbol)| symbol));
    }

    /// Continues with many short windows at once, and with a larger one where two of them have no common
    /// token.
    fn in_step(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        sizes: WindowSizes,
    ) {
        let mut interleaved = std::mem::take(&mut self.interleaved);
        self.fill(&mut interleaved, word, initial, sizes.interleaved);
        merges.merge_all(&mut interleaved);
        interleaved.sort_unstable_by_key(InterleavedWindow::name);
        let mut bridged = false;
        for window in &interleaved {
            let (from, end) =
                (window.name(), word.len().min(window.name() + InterleavedWindow::LONGEST));
            if end <= self.end {
                continue;
            }
            self.next.clear();
            self.next.extend(window.tokens().map(|(at, symbol)| (place(from + at), symbol)));
            let first = self.tokens.partition_point(|(at, _)| (*at as usize) < from);
            if self.join(first, end) {
                continue;
            }
            let is_short = word.len() <= sizes.large.window;
            if !bridged && !is_short && self.window(merges, word, initial, sizes.small) {
                bridged = true;
                continue;
            }
            // For example one repeated letter, which each window divides into tokens in another way.
            self.alone(merges, word, initial, sizes.large);
            break;
        }
        self.interleaved = interleaved;
    }

    /// Makes windows of the next stretches of the word; the name of a window is its start.
    fn fill(
        &self,
        interleaved: &mut Vec<InterleavedWindow>,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        most: usize,
    ) {
        interleaved.clear();
        let begin = self.end.saturating_sub(INTERLEAVED_OVERLAP);
        let starts = (begin..word.len())
            .step_by(InterleavedWindow::LONGEST - INTERLEAVED_OVERLAP)
            .take(most);
        interleaved.extend(starts.map(|from| {
            let end = word.len().min(from + InterleavedWindow::LONGEST);
            InterleavedWindow::new(from, &word[from..end], |at| initial(from + at))
        }));
    }

    /// Continues with a window that is merged alone.
    fn alone(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        size: WindowSize,
    ) {
        if !self.window(merges, word, initial, size) {
            self.whole(merges, word, initial);
        }
    }

    /// Continues with a window that begins with a token and is merged alone; returns `false` if it has no
    /// token in common with the word so far.
    fn window(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        WindowSize { window, mut overlap }: WindowSize,
    ) -> bool {
        loop {
            let first = self.tokens.partition_point(|(at, _)| *at as usize + overlap <= self.end);
            let first = first.saturating_sub(1);
            let from = self.tokens.get(first).map_or(0, |(at, _)| *at as usize);
            if self.end - from >= window {
                return false;
            }
            let end = word.len().min(from + window);
            self.run(merges, word, initial, from..end);
            if self.join(first, end) {
                return true;
            }
            overlap *= 2;
        }
    }

    /// Merges the whole word alone. It is rare that windows have no common token, and this only takes longer.
    fn whole(&mut self, merges: &Merges, word: &[Symbol], initial: &impl Fn(usize) -> Symbol) {
        self.run(merges, word, initial, 0..word.len());
        std::mem::swap(&mut self.tokens, &mut self.next);
        self.end = word.len();
    }

    /// Merges a window into `next`.
    fn run(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        window: Range<usize>,
    ) {
        let from = window.start;
        let left = self.buckets.merge(merges, &word[window], |at| initial(from + at));
        self.next.clear();
        self.next.extend(left.map(|(at, symbol)| (place(from) + at, symbol)));
    }

    /// Joins the tokens in `next`, a window up to `end`, to the tokens from `first` on, at the first common
    /// token. Returns `false` if there is none.
    fn join(&mut self, first: usize, end: usize) -> bool {
        let Self { tokens, next, .. } = self;
        if next.first().is_some_and(|(at, _)| *at == 0) {
            // A window from the start of the word needs no join.
            std::mem::swap(tokens, next);
        } else {
            let before = TokenRun { tokens: &tokens[first..], end: self.end };
            let Some((kept, joined)) = common(before, TokenRun { tokens: next, end }) else {
                return false;
            };
            tokens.truncate(first + kept);
            tokens.extend_from_slice(&next[joined..]);
        }
        self.end = end;
        true
    }
}

/// Tokens side by side, and the end of the last.
#[derive(Clone, Copy)]
struct TokenRun<'a> {
    tokens: &'a [WindowToken],
    end: usize,
}

impl TokenRun<'_> {
    fn end_of(self, at: usize) -> u32 {
        self.tokens.get(at + 1).map_or(place(self.end), |(start, _)| *start)
    }
}

/// The indices, in two runs, of the first token that both have.
fn common(a: TokenRun<'_>, b: TokenRun<'_>) -> Option<(usize, usize)> {
    let (mut i, mut j) = (0, 0);
    while let (Some(left), Some(right)) = (a.tokens.get(i), b.tokens.get(j)) {
        if left == right && a.end_of(i) == b.end_of(j) {
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
