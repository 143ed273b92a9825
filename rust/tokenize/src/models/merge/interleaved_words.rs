//! Merges several short words at once, so that their memory accesses overlap.
//!
//! The merges of a word depend on each other, and each of them reads the table of pairs twice. The table is
//! far larger than the nearer caches. So all words take one step in turn, and the memory for the next step of
//! each is prefetched meanwhile.

use super::pairs::{PairKey, PairTable};
use super::ranked_places::{NONE, PLACE_BITS, SHORT, SMALL, Symbol, TINY, placed, smallest};

/// A set of places in a word, one bit each.
type WordPlaces = u64;

/// Short words, by length: one whose arrays are no longer than needed finds the smallest rank sooner.
#[derive(Default)]
pub(crate) struct InterleavedWords {
    tiny: Vec<InterleavedWord<TINY>>,
    small: Vec<InterleavedWord<SMALL>>,
    short: Vec<InterleavedWord<SHORT>>,
}

impl InterleavedWords {
    /// The most symbols of a word.
    pub(crate) const LONGEST: usize = SHORT;

    /// Adds a word of 1 to [`Self::LONGEST`] symbols, as [`InterleavedWord::new`].
    #[inline]
    pub(crate) fn push(&mut self, name: usize, word: &[Symbol], initial: impl Fn(usize) -> Symbol) {
        if word.len() <= TINY {
            self.tiny.push(InterleavedWord::new(name, word, initial));
        } else if word.len() <= SMALL {
            self.small.push(InterleavedWord::new(name, word, initial));
        } else {
            self.short.push(InterleavedWord::new(name, word, initial));
        }
    }

    /// Merges all words, and changes their order.
    pub(super) fn merge(&mut self, pairs: &PairTable) {
        merge(&mut self.tiny, pairs, |symbol| symbol);
        merge(&mut self.small, pairs, |symbol| symbol);
        merge(&mut self.short, pairs, |symbol| symbol);
    }

    /// Calls `word` with the name and the symbols of each word.
    #[inline]
    pub(crate) fn each(&self, mut word: impl FnMut(usize, Symbols<'_>)) {
        self.tiny.iter().for_each(|merged| word(merged.name, merged.symbols()));
        self.small.iter().for_each(|merged| word(merged.name, merged.symbols()));
        self.short.iter().for_each(|merged| word(merged.name, merged.symbols()));
    }

    /// Removes all words.
    pub(crate) fn clear(&mut self) {
        self.tiny.clear();
        self.small.clear();
        self.short.clear();
    }
}

/// An iterator over the remaining symbols of a word.
pub(crate) struct Symbols<'a> {
    symbols: &'a [Symbol],
    alive: WordPlaces,
}

impl Symbols<'_> {
    /// The next symbol, and its place in the word.
    #[inline]
    fn next_placed(&mut self) -> Option<(usize, Symbol)> {
        let at = self.alive.trailing_zeros() as usize;
        self.alive &= self.alive.wrapping_sub(1);
        self.symbols.get(at).map(|symbol| (at, *symbol))
    }
}

impl Iterator for Symbols<'_> {
    type Item = Symbol;

    #[inline]
    fn next(&mut self) -> Option<Symbol> {
        self.next_placed().map(|(_, symbol)| symbol)
    }
}

/// A word of at most `N` symbols that is being merged; `N` is at most [`SHORT`].
#[derive(Clone, Copy, Debug)]
pub(super) struct InterleavedWord<const N: usize> {
    symbols: [Symbol; N],
    /// For each symbol, the rank of its pair with the next symbol, combined with its place.
    ranks: [u32; N],
    /// The places of the remaining symbols.
    alive: WordPlaces,
    /// The pairs that the last merge made, with their places. They have no ranks yet.
    new_pairs: [(PairKey, usize); 2],
    /// The rank of the last merge.
    last: u32,
    /// The number by which the caller identifies the word.
    name: usize,
}

impl<const N: usize> InterleavedWord<N> {
    /// The most symbols of a word.
    pub(super) const LONGEST: usize = N;

    /// A word of at least one symbol. `initial(at)` is the symbol that the symbols at `at` and after it merge
    /// into.
    #[inline]
    pub(super) fn new(name: usize, word: &[Symbol], initial: impl Fn(usize) -> Symbol) -> Self {
        let mut symbols = [NONE; N];
        symbols[..word.len()].copy_from_slice(word);
        let mut ranks = [NONE; N];
        for (at, rank) in ranks[..word.len() - 1].iter_mut().enumerate() {
            *rank = placed(initial(at), at);
        }
        Self {
            symbols,
            ranks,
            alive: WordPlaces::MAX >> (WordPlaces::BITS as usize - word.len()),
            new_pairs: [(PairKey::NONE, 0); 2],
            last: NONE,
            name,
        }
    }

    /// The name that [`Self::new`] was given.
    pub(super) fn name(&self) -> usize {
        self.name
    }

    /// The remaining symbols.
    #[inline]
    pub(super) fn symbols(&self) -> Symbols<'_> {
        Symbols { symbols: &self.symbols, alive: self.alive }
    }

    /// The remaining symbols, with their places in the word.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (usize, Symbol)> {
        let mut symbols = self.symbols();
        std::iter::from_fn(move || symbols.next_placed())
    }

    /// The rank of the last merge.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Makes one merge; returns `false` if there is none.
    ///
    /// A word has a symbol before and behind the merged ones or not, which cannot be predicted: where there is none,
    /// [`PairKey::NONE`] takes the place of a pair, and no rank is written to a place that has none anyway.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn step(&mut self, pairs: &PairTable, product_of: impl Fn(u32) -> Symbol) -> bool {
        let best = smallest(&self.ranks);
        if best == NONE {
            return false;
        }
        let at = best as usize % SHORT % N;
        let before = self.alive & ((1 << at) - 1);
        let behind = self.alive & (WordPlaces::MAX << at << 1);
        let right = behind.trailing_zeros() as usize % N;
        let behind = behind & behind.wrapping_sub(1);
        let left = (WordPlaces::BITS - 1).wrapping_sub(before.leading_zeros()) as usize % N;
        let next = behind.trailing_zeros() as usize % N;
        self.last = best >> PLACE_BITS;
        let product = product_of(self.last);
        self.alive &= !(1 << right);
        self.ranks[right] = NONE;
        self.symbols[at] = product;
        let first = PairKey::new(self.symbols[left], product);
        let first = if before == 0 { (PairKey::NONE, right) } else { (first, left) };
        let second = PairKey::new(product, self.symbols[next]);
        let second = (if behind == 0 { PairKey::NONE } else { second }, at);
        pairs.prefetch(first.0);
        pairs.prefetch(second.0);
        self.new_pairs = [first, second];
        true
    }

    /// Looks up the ranks of the pairs that the last merge made.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn rank(&mut self, pairs: &PairTable) {
        for (key, at) in self.new_pairs {
            self.ranks[at % N] = placed(pairs.get(key), at);
        }
    }
}

/// Merges all words, and changes their order. `product_of(rank)` is the symbol that a merge of this rank makes.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
fn merge_with<const N: usize>(
    words: &mut [InterleavedWord<N>],
    pairs: &PairTable,
    product_of: impl Fn(u32) -> Symbol,
) {
    let mut left = words.len();
    while left > 0 {
        // The ranks are written in a pass of their own: the smallest is found with vector instructions, which would
        // wait for a rank that was just written.
        let mut at = 0;
        while at < left {
            if words[at].step(pairs, &product_of) {
                at += 1;
            } else {
                // Finished words are moved to the end.
                left -= 1;
                words.swap(at, left);
            }
        }
        for word in &mut words[..left] {
            word.rank(pairs);
        }
    }
}

/// As [`merge_with`], with AVX2, which has an instruction for the smaller of two numbers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn merge_avx2<const N: usize>(
    words: &mut [InterleavedWord<N>],
    pairs: &PairTable,
    product_of: impl Fn(u32) -> Symbol,
) {
    merge_with(words, pairs, product_of);
}

/// Merges all words, and changes their order. `product_of(rank)` is the symbol that a merge of this rank makes.
pub(super) fn merge<const N: usize>(
    words: &mut [InterleavedWord<N>],
    pairs: &PairTable,
    product_of: impl Fn(u32) -> Symbol,
) {
    #[cfg(target_arch = "x86_64")]
    if crate::hardware::has_avx2() {
        #[expect(unsafe_code, reason = "the function needs features of the machine")]
        // SAFETY: the processor has the features that the function is compiled for.
        return unsafe { merge_avx2(words, pairs, product_of) };
    }
    merge_with(words, pairs, product_of);
}
