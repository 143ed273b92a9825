//! [`last_merges`]: the tokens that the merges form from their own text, and the last merge of each.

use std::ops::Range;

use super::interleaved_words;
use super::interleaved_words::InterleavedWord;
use super::lowest_rank_first::reduce_any;
use super::pairs::{PairKey, PairTable};
use super::ranked_places::{NONE, TINY};

/// The most words that are merged in step: enough that a prefetch for each has arrived by its next turn.
pub(super) const TOGETHER: usize = 32;

/// A word for the tokens of a vocabulary, most of which are short.
type TinyWord = InterleavedWord<TINY>;

/// The tokens that the merges form from their own text, each with the rank of the last of these merges, if
/// there is one.
pub(super) fn last_merges(
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
