//! Byte pair encoding on a cache miss: the adjacent pair of lowest rank is merged first, the leftmost on ties.
//!
//! Files list every way to split a token, but only the last merge of the token's own encoding can ever make it: while
//! it forms, all merges inside its span are those of the token alone. So one merge a token is kept (127,156 of
//! Llama 3's 280,147), and symbols are numbered in the order of these merges. Then a pair's rank is the symbol it makes,
//! and one table answers both questions.

mod buckets;
mod lanes;
mod pairs;
mod windows;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::beside::both;
use lanes::Lane;
pub(crate) use lanes::Lanes;
use pairs::PairTable;
pub(crate) use pairs::{LARGEST_MERGES, LARGEST_SYMBOLS};
pub(crate) use windows::Windows;

/// A token in the numbering of [`Merges`]: base symbols first, then by the rank of the merge that makes them.
pub(crate) type Symbol = u32;

/// No symbol: the pair does not merge.
pub(crate) const NONE: Symbol = Symbol::MAX;

/// Longer words take the way whose time grows linearly.
pub(crate) const SHORT: usize = 64;

/// One line of the list of merges, by the index of its tokens in the vocabulary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// The token on the left.
    pub(crate) left: u32,
    /// The token on the right.
    pub(crate) right: u32,
    /// What they become.
    pub(crate) whole: u32,
}

/// The merges that can happen, and the numbering of symbols.
pub(crate) struct Merges {
    pairs: PairTable,
    /// Vocabulary index to symbol.
    symbols: Vec<Symbol>,
    /// Symbol to vocabulary index.
    tokens: Vec<u32>,
    /// By vocabulary index: whether the token's own encoding is the token.
    reachable: Vec<bool>,
}

impl Merges {
    /// Keeps what can happen. `merges` are in the order of their ranks, a pair listed twice counts with its last.
    /// `spell(token, out)` writes the vocabulary indices that encoding the token's text starts from.
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

    /// Whether encoding the token's own text gives the token.
    pub(crate) fn is_reachable(&self, token: u32) -> bool {
        self.reachable[token as usize]
    }

    /// Merges several words at once, and changes their order.
    fn merge_all<const N: usize>(&self, lanes: &mut [Lane<N>]) {
        lanes::merge(lanes, &self.pairs, |symbol| symbol);
    }

    /// What a pair becomes, or [`NONE`].
    #[inline]
    pub(crate) fn pair(&self, left: Symbol, right: Symbol) -> Symbol {
        self.pairs.get(left, right)
    }

    /// Merges a word in place; `initial(at)` is what the symbols at `at` and behind it become.
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
        if crate::machine::has_avx2() {
            #[expect(unsafe_code, reason = "the function needs features of the machine")]
            // SAFETY: the machine has the features that the function is compiled for.
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

/// Lanes that are merged in step where there are more: enough that what each will read is there when it is its turn.
const TOGETHER: usize = 32;

/// A lane for the tokens of a vocabulary, most of which are short.
type TinyLane = Lane<TINY>;

/// Those of `tokens` that the merges make of their own text, with the rank of the last of these, if any.
fn last_merges(
    tokens: Range<u32>,
    all: &PairTable,
    made_by: impl Fn(u32) -> u32,
    spell: impl Fn(u32, &mut Vec<u32>) -> bool,
) -> Vec<(u32, u32)> {
    let mut found = Vec::with_capacity(tokens.len());
    let mut lanes: Vec<TinyLane> = Vec::with_capacity(TOGETHER);
    let mut merge = |lanes: &mut Vec<TinyLane>| {
        lanes::merge(lanes, all, &made_by);
        for lane in lanes.drain(..) {
            let token = u32::try_from(lane.name()).unwrap_or(NONE);
            if lane.symbols().eq([token]) {
                found.push((token, lane.last()));
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
        if spelled.len() > TinyLane::LONGEST {
            long.push(token);
            continue;
        }
        let initial = |at: usize| all.get(spelled[at], spelled[at + 1]);
        lanes.push(TinyLane::new(token as usize, &spelled, initial));
        if lanes.len() == TOGETHER {
            merge(&mut lanes);
        }
    }
    merge(&mut lanes);
    for token in long {
        spelled.clear();
        spell(token, &mut spelled);
        let mut last = NONE;
        reduce_any(
            &mut spelled,
            |left, right| all.get(left, right),
            |rank| {
                last = rank;
                made_by(rank)
            },
        );
        if spelled == [token] {
            found.push((token, last));
        }
    }
    found
}

/// Most words are no longer than this, and cost less to set up.
const TINY: usize = 16;

/// Most of the others are no longer than this.
const SMALL: usize = 32;

/// How far a rank is shifted, to have room for the place of its pair.
const PLACE_BITS: u32 = SHORT.trailing_zeros();

/// A rank with its place, so that the smallest is the leftmost one of the lowest rank. Ranks have at most 22 bits.
#[inline]
fn placed(rank: u32, at: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "places are below 64")]
    let placed = rank << PLACE_BITS | at as u32;
    if rank == NONE { NONE } else { placed }
}

/// Merges a word of at most `N` symbols in place: the smallest rank is looked for after each merge.
///
/// Symbols stay where they are, and a bit tells which are alive: moving the rest of a short word up cost a tenth of
/// the time of a first sight.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
fn reduce<const N: usize>(
    word: &mut Vec<Symbol>,
    initial: impl Fn(usize) -> u32,
    rank_of: impl Fn(Symbol, Symbol) -> u32,
    mut made_by: impl FnMut(u32) -> Symbol,
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
        // The right side is the next one alive.
        let after = alive & (u64::MAX << at) & !(1 << at);
        let right = after.trailing_zeros() as usize;
        let made = made_by(best >> PLACE_BITS);
        symbols[at % N] = made;
        alive &= !(1 << (right % SHORT));
        ranks[right % N] = NONE;
        let next = after & after.wrapping_sub(1);
        ranks[at % N] = match symbols.get(next.trailing_zeros() as usize) {
            Some(next) => placed(rank_of(made, *next), at),
            None => NONE,
        };
        let before = alive & ((1 << at) - 1);
        if before != 0 {
            let before = before.ilog2() as usize;
            ranks[before % N] = placed(rank_of(symbols[before % N], made), before);
        }
    }
    word.clear();
    while alive != 0 {
        word.push(symbols[alive.trailing_zeros() as usize % N]);
        alive &= alive - 1;
    }
}

/// The smallest of all.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
fn smallest<const N: usize>(ranks: &[u32; N]) -> u32 {
    let (blocks, _) = ranks.as_chunks::<8>();
    let mut least = [NONE; 8];
    for block in blocks {
        for lane in 0..8 {
            least[lane] = least[lane].min(block[lane]);
        }
    }
    let mut width = 4;
    while width > 0 {
        for lane in 0..width {
            least[lane] = least[lane].min(least[lane + width]);
        }
        width /= 2;
    }
    least[0]
}

/// Merges a word of any length with any ranks, in time that grows with the length and its logarithm.
fn reduce_any(
    word: &mut Vec<Symbol>,
    rank_of: impl Fn(Symbol, Symbol) -> u32,
    mut made_by: impl FnMut(u32) -> Symbol,
) {
    let start = word.clone();
    let initial = |at: usize| rank_of(start[at], start[at + 1]);
    if word.len() <= TINY {
        return reduce::<TINY>(word, initial, &rank_of, made_by);
    }
    if word.len() <= SHORT {
        return reduce::<SHORT>(word, initial, &rank_of, made_by);
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
    // The places beside each symbol that is still there.
    let mut next: Vec<usize> = (1..=count).collect();
    let mut before: Vec<Option<usize>> = (0..count).map(|at| at.checked_sub(1)).collect();
    while let Some(Reverse((rank, at))) = waiting.pop() {
        let right = next[at];
        // One of the two may have been merged with another since.
        if word[at] == NONE || right == count || rank_of(word[at], word[right]) != rank {
            continue;
        }
        word[at] = made_by(rank);
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
