//! [`Merges`]: the merges that can happen, and the numbering of the symbols.

use super::interleaved_words;
use super::interleaved_words::{InterleavedWord, InterleavedWords};
use super::last_merges::last_merges;
use super::pairs::{PairKey, PairTable};
use super::ranked_places::{NONE, Symbol};
use crate::loading::in_parallel::both;

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
    pub(super) fn merge_all<const N: usize>(&self, words: &mut [InterleavedWord<N>]) {
        interleaved_words::merge(words, &self.pairs, |symbol| symbol);
    }

    /// The symbol that a pair merges into, or [`NONE`].
    #[inline]
    pub(crate) fn pair(&self, left: Symbol, right: Symbol) -> Symbol {
        self.pairs.get(PairKey::new(left, right))
    }
}
