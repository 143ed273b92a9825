//! Byte pair encoding of words that no cache has: the adjacent pair of lowest rank is merged first, the
//! leftmost on ties.
//!
//! Files list every way to split a token, but only one merge can ever make it: the last merge of the token's
//! own encoding. While a token forms, all merges within it are the merges of its own text. So one merge a
//! token is kept (127,156 of Llama 3's 280,147), and symbols are numbered in the order of these merges. Then
//! a pair's rank is the symbol that it merges into, and one table gives both.

mod buckets;
mod interleaved_words;
mod pairs;
mod ranked_places;
mod windows;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::loading::in_parallel::both;
use interleaved_words::InterleavedWord;
pub(crate) use interleaved_words::InterleavedWords;
pub(crate) use pairs::{LARGEST_MERGES, LARGEST_SYMBOLS};
use pairs::{PairKey, PairTable};
pub(crate) use ranked_places::{NONE, SHORT, Symbol};
use ranked_places::{PLACE_BITS, SMALL, TINY, placed, smallest};
pub(crate) use windows::Windows;

/// One line of the list of merges, with the vocabulary indices of its tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// The token on the left.
    pub(crate) left: u32,
    /// The token on the right.
    pub(crate) right: u32,
    /// The merged token.
    pub(crate) whole: u32,
}

/// The merges that can happen, and the numbering of the symbols.
pub(crate) struct Merges {
    pairs: PairTable,
    /// The symbol of each vocabulary index.
    symbols: Vec<Symbol>,
    /// The vocabulary index of each symbol.
    tokens: Vec<u32>,
    /// For each token, by vocabulary index, true if the merges form it from its own text.
    reachable: Vec<bool>,
}

impl Merges {
    /// Keeps the merges that can happen. `merges` are in the order of their ranks; of a pair that is listed
    /// twice, the last rank counts. `spell(token, out)` writes the vocabulary indices of the token's text
    /// before any merge.
    pub(crate) fn new(
        tokens: usize,
        merges: &[Merge],
        spell: impl Fn(u32, &mut Vec<u32>) -> bool + Sync,
    ) -> Self {
        let ranked = (0..).zip(merges);
        let all = PairTable::new(ranked.map(|(rank, merge)| [merge.left, merge.right, rank]));
        let count = u32::try_from(tokens).unwrap_or(NONE);
        let last = |tokens| last_merges(tokens, &all, |rank| merges[rank as usize].whole, &spell);
        let halves = both(|| last(0..count / 2), || last(count / 2..count));
        let (mut makers, mut reachable) = (vec![NONE; tokens], vec![false; tokens]);
        for (token, maker) in halves.0.into_iter().chain(halves.1) {
            reachable[token as usize] = true;
            makers[token as usize] = maker;
        }
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|token| match makers[*token as usize] {
            NONE => 0,
            rank => u64::from(rank) + 1,
        });
        let mut symbols = vec![0; tokens];
        for (symbol, token) in (0..).zip(&order) {
            symbols[*token as usize] = symbol;
        }
        let kept = makers.iter().filter(|maker| **maker != NONE);
        let pairs = PairTable::new(kept.map(|rank| {
            let Merge { left, right, whole } = merges[*rank as usize];
            [left, right, whole].map(|token| symbols[token as usize])
        }));
        Self { pairs, symbols, tokens: order, reachable }
    }

    /// The symbol of a token of the vocabulary.
    pub(crate) fn symbol(&self, token: u32) -> Symbol {
        self.symbols[token as usize]
    }

    /// The vocabulary index of each symbol.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// True if the merges form the token from its own text.
    pub(crate) fn is_reachable(&self, token: u32) -> bool {
        self.reachable[token as usize]
    }

    /// Merges short words at once, and changes their order.
    pub(crate) fn merge_interleaved(&self, words: &mut InterleavedWords) {
        words.merge(&self.pairs);
    }

    /// Merges several words at once, and changes their order.
    fn merge_all<const N: usize>(&self, words: &mut [InterleavedWord<N>]) {
        interleaved_words::merge(words, &self.pairs, |symbol| symbol);
    }

    /// The symbol that a pair merges into, or [`NONE`].
    #[inline]
    pub(crate) fn pair(&self, left: Symbol, right: Symbol) -> Symbol {
        self.pairs.get(PairKey::new(left, right))
    }

    /// Merges a word in place; `initial(at)` is the symbol that the symbols at `at` and after it merge into.
    #[inline]
    pub(crate) fn merge(
        &self,
        word: &mut Vec<Symbol>,
        windows: &mut Windows,
        initial: impl Fn(usize) -> Symbol,
    ) {
        if word.len() > SHORT {
            return windows.merge(self, word, initial);
        }
        #[cfg(target_arch = "x86_64")]
        if crate::hardware::has_avx2() {
            #[expect(unsafe_code, reason = "the function needs features of the machine")]
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { self.merge_avx2(word, initial) };
        }
        self.merge_with(word, initial);
    }

    /// As [`Self::merge_with`], with AVX2, which compares a line of pairs in two steps.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn merge_avx2(&self, word: &mut Vec<Symbol>, initial: impl Fn(usize) -> Symbol) {
        self.merge_with(word, initial);
    }

    /// Merges a word of at most [`SHORT`] symbols.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn merge_with(&self, word: &mut Vec<Symbol>, initial: impl Fn(usize) -> Symbol) {
        let pair = |left, right| self.pair(left, right);
        if word.len() <= TINY {
            reduce::<TINY>(word, initial, pair, |symbol| symbol);
        } else {
            reduce::<SHORT>(word, initial, pair, |symbol| symbol);
        }
    }
}

/// The most words that are merged in step: enough that a prefetch for each has arrived by its next turn.
const TOGETHER: usize = 32;

/// A word for the tokens of a vocabulary, most of which are short.
type TinyWord = InterleavedWord<TINY>;

/// The tokens that the merges form from their own text, each with the rank of the last of these merges, if
/// there is one.
fn last_merges(
    tokens: Range<u32>,
    all: &PairTable,
    product_of: impl Fn(u32) -> u32,
    spell: impl Fn(u32, &mut Vec<u32>) -> bool,
) -> Vec<(u32, u32)> {
    let mut found = Vec::with_capacity(tokens.len());
    let mut words: Vec<TinyWord> = Vec::with_capacity(TOGETHER);
    let mut merge = |words: &mut Vec<TinyWord>| {
        interleaved_words::merge(words, all, &product_of);
        for word in words.drain(..) {
            let token = u32::try_from(word.name()).unwrap_or(NONE);
            if word.symbols().eq([token]) {
                found.push((token, word.last()));
            }
        }
    };
    let mut long = Vec::new();
    let mut spelled = Vec::new();
    for token in tokens {
        spelled.clear();
        if !spell(token, &mut spelled) || spelled.is_empty() {
            continue;
        }
        if spelled.len() > TinyWord::LONGEST {
            long.push(token);
            continue;
        }
        let initial = |at: usize| all.get(PairKey::new(spelled[at], spelled[at + 1]));
        words.push(TinyWord::new(token as usize, &spelled, initial));
        if words.len() == TOGETHER {
            merge(&mut words);
        }
    }
    merge(&mut words);
    for token in long {
        spelled.clear();
        spell(token, &mut spelled);
        let mut last = NONE;
        reduce_any(
            &mut spelled,
            |left, right| all.get(PairKey::new(left, right)),
            |rank| {
                last = rank;
                product_of(rank)
            },
        );
        if spelled == [token] {
            found.push((token, last));
        }
    }
    found
}

/// Merges a word of at most `N` symbols in place: the smallest rank is found after each merge.
///
/// Symbols stay in place, and a bit tells whether each is still there. Moving the rest of a short word up
/// took a tenth of the time of encoding new words.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
fn reduce<const N: usize>(
    word: &mut Vec<Symbol>,
    initial: impl Fn(usize) -> u32,
    rank_of: impl Fn(Symbol, Symbol) -> u32,
    mut product_of: impl FnMut(u32) -> Symbol,
) {
    let length = word.len();
    if length < 2 {
        return;
    }
    let mut symbols = [NONE; N];
    symbols[..length].copy_from_slice(word);
    let mut ranks = [NONE; N];
    for (at, rank) in ranks[..length - 1].iter_mut().enumerate() {
        *rank = placed(initial(at), at);
    }
    let mut alive = u64::MAX >> (u64::BITS as usize - length);
    loop {
        let best = smallest(&ranks);
        if best == NONE {
            break;
        }
        let at = best as usize % SHORT;
        // The right side is the next remaining symbol.
        let after = alive & (u64::MAX << at) & !(1 << at);
        let right = after.trailing_zeros() as usize;
        let product = product_of(best >> PLACE_BITS);
        symbols[at % N] = product;
        alive &= !(1 << (right % SHORT));
        ranks[right % N] = NONE;
        let next = after & after.wrapping_sub(1);
        ranks[at % N] = match symbols.get(next.trailing_zeros() as usize) {
            Some(next) => placed(rank_of(product, *next), at),
            None => NONE,
        };
        let before = alive & ((1 << at) - 1);
        if before != 0 {
            let before = before.ilog2() as usize;
            ranks[before % N] = placed(rank_of(symbols[before % N], product), before);
        }
    }
    word.clear();
    while alive != 0 {
        word.push(symbols[alive.trailing_zeros() as usize % N]);
        alive &= alive - 1;
    }
}

/// Merges a word of any length with any ranks, in time n log n.
fn reduce_any(
    word: &mut Vec<Symbol>,
    rank_of: impl Fn(Symbol, Symbol) -> u32,
    mut product_of: impl FnMut(u32) -> Symbol,
) {
    let start = word.clone();
    let initial = |at: usize| rank_of(start[at], start[at + 1]);
    if word.len() <= TINY {
        return reduce::<TINY>(word, initial, &rank_of, product_of);
    }
    if word.len() <= SHORT {
        return reduce::<SHORT>(word, initial, &rank_of, product_of);
    }
    let count = word.len();
    let mut waiting = BinaryHeap::new();
    let wait = |waiting: &mut BinaryHeap<_>, left: Symbol, right: Symbol, at: usize| {
        let rank = rank_of(left, right);
        if rank != NONE {
            waiting.push(Reverse((rank, at)));
        }
    };
    for (at, pair) in word.windows(2).enumerate() {
        wait(&mut waiting, pair[0], pair[1], at);
    }
    // The places next to each remaining symbol.
    let mut next: Vec<usize> = (1..=count).collect();
    let mut before: Vec<Option<usize>> = (0..count).map(|at| at.checked_sub(1)).collect();
    while let Some(Reverse((rank, at))) = waiting.pop() {
        let right = next[at];
        // One of the two symbols may have been merged with another one since.
        if word[at] == NONE || right == count || rank_of(word[at], word[right]) != rank {
            continue;
        }
        word[at] = product_of(rank);
        word[right] = NONE;
        next[at] = next[right];
        if next[at] < count {
            before[next[at]] = Some(at);
            wait(&mut waiting, word[at], word[next[at]], at);
        }
        if let Some(before) = before[at] {
            wait(&mut waiting, word[before], word[at], before);
        }
    }
    word.retain(|symbol| *symbol != NONE);
}

#[cfg(test)]
mod tests;
