//! [`reduce`] and [`reduce_any`]: merge the pair of the lowest rank in a word until no pair is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranked_places::{NONE, PLACE_BITS, SHORT, Symbol, TINY, placed, smallest};

/// Merges a word of at most `N` symbols in place: the smallest rank is found after each merge.
///
/// Symbols stay in place, and a bit tells whether each is still there. Moving the rest of a short word up
/// took a tenth of the time of encoding new words.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
pub(super) fn reduce<const N: usize>(
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
pub(super) fn reduce_any(
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
