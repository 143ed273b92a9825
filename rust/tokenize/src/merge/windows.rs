//! Merging long words a window at a time, so that what is looked at stays near the core.
//!
//! Merges on both sides of a boundary that none of them crosses know nothing of each other. So tokens are what a word
//! becomes if each two neighbours are what their own text becomes: the first merge to cross a boundary of theirs would
//! cross it in the text of these two as well. Two neighbours in a window are such a pair, wherever the window begins.
//! Two windows that have a token in common, at the same place, can therefore be joined there: all neighbours are
//! neighbours in one of the two.

use std::ops::Range;

use super::buckets::Buckets;
use super::{Lane, Merges, SMALL, Symbol, TOGETHER};
use crate::stop::Stop;

/// How windows are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// A window that is merged by itself.
    pub(super) large: Size,
    /// One where two lanes do not meet.
    pub(super) small: Size,
    /// How many lanes are merged in step.
    pub(super) lanes: usize,
    /// Symbols of a token, on average, from which on windows are merged by themselves.
    pub(super) long_token: usize,
}

/// A window, and how far the next one reaches back into it, so that they meet: some of the longest tokens there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) window: usize,
    pub(super) overlap: usize,
}

/// A large window has a thousand symbols and more, which stay in the first two levels of caches. Random letters take two
/// thirds of the time in lanes that they take in large windows, and a letter again and again a quarter more (llama3, AMD
/// EPYC, 2026-11-22): most merges of long tokens are made in two lanes.
const SIZES: Sizes = Sizes {
    large: Size { window: 2048, overlap: 256 },
    small: Size { window: 96, overlap: 32 },
    lanes: TOGETHER,
    long_token: 3,
};

/// Symbols of a word from which on merging it takes so long that it can be stopped.
const VERY_LONG: usize = 1 << 20;

/// What is merged in step.
type Stretch = Lane<SMALL>;

/// How far each lane reaches back into the one before it, so that they meet.
const LANE_OVERLAP: usize = 8;

/// Where a token begins in the word, and its symbol.
type Token = (u32, Symbol);

/// What merging long words needs, kept for the next one.
#[derive(Default)]
pub(crate) struct Windows {
    buckets: Buckets,
    /// What the word becomes as far as it was looked at.
    tokens: Vec<Token>,
    /// How far it was looked at.
    end: usize,
    /// What the next window becomes.
    next: Vec<Token>,
    lanes: Vec<Stretch>,
    /// What ends the merging of a word that is very long.
    pub(crate) stop: Stop,
}

impl Windows {
    /// Merges `word` in place; `initial(at)` is what the symbols at `at` and behind it become.
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
        sizes: Sizes,
    ) {
        self.tokens.clear();
        self.end = 0;
        // What is shorter may be remembered, and has to be whole.
        let can_stop = word.len() > VERY_LONG;
        while self.end < word.len() && !(can_stop && self.stop.is_asked()) {
            if self.tokens.len() * sizes.long_token >= self.end {
                self.in_step(merges, word, &initial, sizes);
            } else {
                self.alone(merges, word, &initial, sizes.large);
            }
        }
        word.clear();
        word.extend(self.tokens.iter().map(|(_, symbol)| symbol));
    }

    /// Goes on by many short windows at once, and by a larger one where two of them do not meet.
    fn in_step(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        sizes: Sizes,
    ) {
        let mut lanes = std::mem::take(&mut self.lanes);
        self.fill(&mut lanes, word, initial, sizes.lanes);
        merges.merge_all(&mut lanes);
        lanes.sort_unstable_by_key(Stretch::name);
        let mut bridged = false;
        for lane in &lanes {
            let (from, end) = (lane.name(), word.len().min(lane.name() + Stretch::LONGEST));
            if end <= self.end {
                continue;
            }
            self.next.clear();
            self.next.extend(lane.tokens().map(|(at, symbol)| (place(from + at), symbol)));
            let first = self.tokens.partition_point(|(at, _)| (*at as usize) < from);
            if self.join(first, end) {
                continue;
            }
            let is_short = word.len() <= sizes.large.window;
            if !bridged && !is_short && self.window(merges, word, initial, sizes.small) {
                bridged = true;
                continue;
            }
            // Such as one letter again and again, which is cut another way in each window.
            self.alone(merges, word, initial, sizes.large);
            break;
        }
        self.lanes = lanes;
    }

    /// Makes lanes of the next stretches of the word, each of which is named after its place.
    fn fill(
        &self,
        lanes: &mut Vec<Stretch>,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        most: usize,
    ) {
        lanes.clear();
        let begin = self.end.saturating_sub(LANE_OVERLAP);
        let begins = (begin..word.len()).step_by(Stretch::LONGEST - LANE_OVERLAP).take(most);
        lanes.extend(begins.map(|from| {
            let end = word.len().min(from + Stretch::LONGEST);
            Stretch::new(from, &word[from..end], |at| initial(from + at))
        }));
    }

    /// Goes on by a window that is merged by itself.
    fn alone(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        size: Size,
    ) {
        if !self.window(merges, word, initial, size) {
            self.whole(merges, word, initial);
        }
    }

    /// Goes on by a window that begins with a token, and is merged by itself; false if it meets none of the tokens.
    fn window(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: &impl Fn(usize) -> Symbol,
        Size { window, mut overlap }: Size,
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

    /// Merges all of the word by itself: it is rare that windows do not meet, and only costs time.
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

    /// Puts the tokens in `next`, of a window up to `end`, behind those from `first` on, where they meet.
    fn join(&mut self, first: usize, end: usize) -> bool {
        let Self { tokens, next, .. } = self;
        if next.first().is_some_and(|(at, _)| *at == 0) {
            // What the window says of the beginning holds by itself.
            std::mem::swap(tokens, next);
        } else {
            let Some((kept, joined)) = common((&tokens[first..], self.end), (next, end)) else {
                return false;
            };
            tokens.truncate(first + kept);
            tokens.extend_from_slice(&next[joined..]);
        }
        self.end = end;
        true
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
