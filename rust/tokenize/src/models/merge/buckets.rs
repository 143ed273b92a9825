//! Merges long words in nearly linear time: each position is queued in the bucket of its rank, and the bucket
//! of the lowest rank goes first.
//!
//! A heap costs about 100 ns a byte on a million `a`. Here a push is one store, and three levels of bitmaps
//! give the lowest rank.

use super::merges::Merges;
use super::ranked_places::{NONE, Symbol};

/// The end of the linked list.
const END: u32 = u32::MAX;

/// One symbol of the word, linked to its remaining neighbours.
#[derive(Clone, Copy)]
struct SymbolLink {
    symbol: Symbol,
    /// The rank of the pair of this symbol and the next one; also the bucket in which this position is
    /// queued.
    rank: Symbol,
    previous: u32,
    next: u32,
}

/// The buckets and the linked list of one thread, kept for the next long word.
#[derive(Default)]
pub(crate) struct Buckets {
    links: Vec<SymbolLink>,
    /// The last entry of `waiting` in the bucket of each rank.
    heads: Vec<u32>,
    /// A position, and the previous entry in the same bucket.
    waiting: Vec<(u32, u32)>,
    /// Bitmaps: the buckets that are not empty, the words of that bitmap that are not zero, and the words of
    /// the second bitmap that are not zero.
    levels: [Vec<u64>; 3],
    round: Vec<u32>,
}

impl Buckets {
    /// Merges `word`; returns the remaining symbols with their places in it.
    ///
    /// `initial(at)` is the symbol that the symbols at `at` and after it merge into.
    pub(super) fn merge(
        &mut self,
        merges: &Merges,
        word: &[Symbol],
        initial: impl Fn(usize) -> Symbol,
    ) -> impl Iterator<Item = (u32, Symbol)> {
        self.prepare(merges.tokens().len());
        self.links.clear();
        self.waiting.clear();
        for (position, symbol) in (0_u32..).zip(word) {
            let next = position + 1;
            self.links.push(SymbolLink {
                symbol: *symbol,
                rank: NONE,
                previous: position.wrapping_sub(1),
                next: if (next as usize) < word.len() { next } else { END },
            });
        }
        for (position, at) in (0_u32..).zip(1..word.len()) {
            let rank = initial(at - 1);
            self.links[at - 1].rank = rank;
            if rank != NONE {
                self.wait(rank, position);
            }
        }
        self.run_all(merges);
        let mut at = 0;
        std::iter::from_fn(move || {
            let link = self.links.get(at as usize)?;
            Some((std::mem::replace(&mut at, link.next), link.symbol))
        })
    }

    fn prepare(&mut self, ranks: usize) {
        if self.heads.len() < ranks {
            self.heads.resize(ranks, END);
            let mut size = ranks;
            for level in &mut self.levels {
                size = size.div_ceil(64);
                level.resize(size, 0);
            }
        }
    }

    /// Merges all queued positions.
    fn run_all(&mut self, merges: &Merges) {
        #[cfg(target_arch = "x86_64")]
        if crate::hardware::has_avx2() {
            #[expect(unsafe_code, reason = "the function needs features of the machine")]
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { self.run_all_avx2(merges) };
        }
        self.run_all_with(merges);
    }

    /// As [`Self::run_all_with`], with AVX2, which compares a line of pairs in two steps.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn run_all_avx2(&mut self, merges: &Merges) {
        self.run_all_with(merges);
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn run_all_with(&mut self, merges: &Merges) {
        while let Some(rank) = self.lowest() {
            self.run(merges, rank);
        }
    }

    /// Looks up the symbol that `position` and its successor merge into, and queues the position for it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn rank(&mut self, merges: &Merges, position: u32) -> Symbol {
        let link = self.links[position as usize];
        let rank = match self.links.get(link.next as usize) {
            Some(next) => merges.pair(link.symbol, next.symbol),
            None => NONE,
        };
        self.links[position as usize].rank = rank;
        if rank != NONE {
            self.wait(rank, position);
        }
        rank
    }

    #[inline]
    fn wait(&mut self, rank: Symbol, position: u32) {
        let head = &mut self.heads[rank as usize];
        self.waiting.push((position, *head));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fewer entries than 2^32: a word has fewer bytes"
        )]
        let entry = (self.waiting.len() - 1) as u32;
        if *head == END {
            let mut bit = rank as usize;
            for level in &mut self.levels {
                level[bit / 64] |= 1 << (bit % 64);
                bit /= 64;
            }
        }
        *head = entry;
    }

    /// The lowest rank whose bucket is not empty.
    fn lowest(&self) -> Option<Symbol> {
        let [bottom, middle, top] = &self.levels;
        let word = top.iter().position(|word| *word != 0)?;
        let first = |level: &[u64], word: usize| word * 64 + level[word].trailing_zeros() as usize;
        u32::try_from(first(bottom, first(middle, first(top, word)))).ok()
    }

    /// Empties the bucket of `rank` into `round`, in the order of positions.
    fn take(&mut self, rank: Symbol) {
        self.round.clear();
        let mut entry = std::mem::replace(&mut self.heads[rank as usize], END);
        while let Some((position, before)) = self.waiting.get(entry as usize) {
            self.round.push(*position);
            entry = *before;
        }
        let mut bit = rank as usize;
        for level in &mut self.levels {
            level[bit / 64] &= !(1 << (bit % 64));
            if level[bit / 64] != 0 {
                break;
            }
            bit /= 64;
        }
        self.round.reverse();
        if !self.round.is_sorted() {
            self.round.sort_unstable();
        }
    }

    /// Merges the bucket of `rank`, left to right, until a lower rank is queued.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each kind of machine")]
    fn run(&mut self, merges: &Merges, rank: Symbol) {
        self.take(rank);
        let round = std::mem::take(&mut self.round);
        for (index, position) in round.iter().enumerate() {
            let link = self.links[*position as usize];
            // The position was merged, or got another neighbour, since it was queued.
            if link.rank != rank {
                continue;
            }
            let right = self.links[link.next as usize];
            self.links[link.next as usize].rank = NONE;
            if let Some(after) = self.links.get_mut(right.next as usize) {
                after.previous = *position;
            }
            let left = &mut self.links[*position as usize];
            left.symbol = rank;
            left.next = right.next;
            let mut lower = self.rank(merges, *position) < rank;
            if link.previous != END {
                lower |= self.rank(merges, link.previous) < rank;
            }
            if lower {
                for position in &round[index + 1..] {
                    if self.links[*position as usize].rank == rank {
                        self.wait(rank, *position);
                    }
                }
                break;
            }
        }
        self.round = round;
    }
}
