//! Several short words merged at once: while one waits for memory, the others go on.
//!
//! A word takes a merge after the other, and each asks the table of pairs twice, which is far larger than the caches
//! near the core. So all words take one step, and what the next step of each will read is on its way meanwhile.

use super::pairs::PairTable;
use super::{Merges, NONE, PLACE_BITS, SHORT, SMALL, Symbol, TINY, placed, smallest};

/// Places of a word, one bit each.
type Places = u64;

/// Short words of all lengths: in a lane no longer than needed, the smallest rank is found sooner.
#[derive(Default)]
pub(crate) struct Lanes {
    tiny: Vec<Lane<TINY>>,
    small: Vec<Lane<SMALL>>,
    short: Vec<Lane<SHORT>>,
}

impl Lanes {
    /// The most symbols of a word.
    pub(crate) const LONGEST: usize = SHORT;

    /// Adds a word of at least one symbol and at most [`Self::LONGEST`], as [`Lane::new`].
    #[inline]
    pub(crate) fn push(&mut self, name: usize, word: &[Symbol], initial: impl Fn(usize) -> Symbol) {
        if word.len() <= TINY {
            self.tiny.push(Lane::new(name, word, initial));
        } else if word.len() <= SMALL {
            self.small.push(Lane::new(name, word, initial));
        } else {
            self.short.push(Lane::new(name, word, initial));
        }
    }

    /// Merges all words, and changes their order.
    pub(crate) fn merge(&mut self, merges: &Merges) {
        merges.merge_all(&mut self.tiny);
        merges.merge_all(&mut self.small);
        merges.merge_all(&mut self.short);
    }

    /// Calls `word` with the name and the symbols of each word.
    #[inline]
    pub(crate) fn each(&self, mut word: impl FnMut(usize, Symbols<'_>)) {
        self.tiny.iter().for_each(|lane| word(lane.name, lane.symbols()));
        self.small.iter().for_each(|lane| word(lane.name, lane.symbols()));
        self.short.iter().for_each(|lane| word(lane.name, lane.symbols()));
    }

    /// Forgets all words.
    pub(crate) fn clear(&mut self) {
        self.tiny.clear();
        self.small.clear();
        self.short.clear();
    }
}

/// The symbols of a word that are left.
pub(crate) struct Symbols<'a> {
    symbols: &'a [Symbol],
    alive: Places,
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

/// A word of at most `N` symbols on its way, where `N` is at most [`SHORT`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane<const N: usize> {
    symbols: [Symbol; N],
    /// Rank and place of each symbol with the next one.
    ranks: [u32; N],
    /// Which symbols are there.
    alive: Places,
    /// Where two symbols were merged in the last step: the pairs around it have no ranks yet.
    merged: Option<usize>,
    /// The rank of that merge.
    last: u32,
    /// What the owner knows the word by.
    name: usize,
}

impl<const N: usize> Lane<N> {
    /// The most symbols of a word.
    pub(super) const LONGEST: usize = N;

    /// A word of at least one symbol. `initial(at)` is what the symbols at `at` and behind it become.
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
            alive: Places::MAX >> (Places::BITS as usize - word.len()),
            merged: None,
            last: NONE,
            name,
        }
    }

    /// What [`Self::new`] was told.
    pub(super) fn name(&self) -> usize {
        self.name
    }

    /// The symbols that are left.
    #[inline]
    pub(super) fn symbols(&self) -> Symbols<'_> {
        Symbols { symbols: &self.symbols, alive: self.alive }
    }

    /// The symbols that are left, with their places in the word.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (usize, Symbol)> {
        let mut symbols = self.symbols();
        std::iter::from_fn(move || symbols.next_placed())
    }

    /// The place before `at` and the place behind it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn around(&self, at: usize) -> (Option<usize>, Option<usize>) {
        let before = self.alive & ((1 << at) - 1);
        let after = self.alive & !(Places::MAX >> (Places::BITS as usize - 1 - at));
        let place = |places: Places, at: u32| (places != 0).then_some(at as usize % N);
        (
            place(before, (Places::BITS - 1) ^ before.leading_zeros()),
            place(after, after.trailing_zeros()),
        )
    }

    /// The rank of the last merge.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Ranks the pairs that the last merge has made.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn rank(&mut self, pairs: &PairTable) {
        let Some(at) = self.merged else { return };
        let (before, after) = self.around(at);
        if let Some(before) = before {
            let rank = pairs.get(self.symbols[before], self.symbols[at]);
            self.ranks[before] = placed(rank, before);
        }
        if let Some(after) = after {
            self.ranks[at] = placed(pairs.get(self.symbols[at], self.symbols[after]), at);
        }
    }

    /// One merge; `false` if there is none.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn step(&mut self, pairs: &PairTable, made_by: impl Fn(u32) -> Symbol) -> bool {
        let best = smallest(&self.ranks);
        if best == NONE {
            return false;
        }
        let at = best as usize % SHORT % N;
        let (before, Some(right)) = self.around(at) else { return false };
        self.last = best >> PLACE_BITS;
        let made = made_by(self.last);
        self.symbols[at] = made;
        self.alive &= !(1 << right);
        self.ranks[right] = NONE;
        self.ranks[at] = NONE;
        self.merged = Some(at);
        if let Some(before) = before {
            pairs.prefetch(self.symbols[before], made);
        }
        if let (_, Some(after)) = self.around(at) {
            pairs.prefetch(made, self.symbols[after]);
        }
        true
    }
}

/// Merges all words, and changes their order. `made_by(rank)` is the symbol that a merge of this rank makes.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
fn merge_with<const N: usize>(
    lanes: &mut [Lane<N>],
    pairs: &PairTable,
    made_by: impl Fn(u32) -> Symbol,
) {
    let mut left = lanes.len();
    while left > 0 {
        // In two passes: the smallest rank is looked for in vectors, which wait for numbers just written.
        for lane in &mut lanes[..left] {
            lane.rank(pairs);
        }
        let mut at = 0;
        while at < left {
            if lanes[at].step(pairs, &made_by) {
                at += 1;
            } else {
                // Words that are done gather at the end.
                left -= 1;
                lanes.swap(at, left);
            }
        }
    }
}

/// As [`merge_with`], with AVX2, which has the smaller of two numbers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn merge_avx2<const N: usize>(
    lanes: &mut [Lane<N>],
    pairs: &PairTable,
    made_by: impl Fn(u32) -> Symbol,
) {
    merge_with(lanes, pairs, made_by);
}

/// Merges all words, and changes their order. `made_by(rank)` is the symbol that a merge of this rank makes.
pub(super) fn merge<const N: usize>(
    lanes: &mut [Lane<N>],
    pairs: &PairTable,
    made_by: impl Fn(u32) -> Symbol,
) {
    #[cfg(target_arch = "x86_64")]
    if crate::machine::has_avx2() {
        #[expect(unsafe_code, reason = "the function needs features of the machine")]
        // SAFETY: the machine has the features that the function is compiled for.
        return unsafe { merge_avx2(lanes, pairs, made_by) };
    }
    merge_with(lanes, pairs, made_by);
}
