//! [`Merges::merge`]: merges one word, in the way that its length asks for.

use super::lowest_rank_first::reduce;
use super::merges::Merges;
use super::ranked_places::{SHORT, Symbol, TINY};
use super::windows::Windows;

impl Merges {
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
