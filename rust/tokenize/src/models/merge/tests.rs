//! Compares merging with its definition: find the leftmost pair of the lowest rank, and merge it.

use std::ops::Range;

use proptest::prelude::*;

use super::buckets::Buckets;
use super::interleaved_words::InterleavedWords;
use super::lowest_rank_first::reduce_any;
use super::merges::{Merge, Merges};
use super::windows::{WindowSize, WindowSizes, Windows};

/// A random model over four letters: tokens as texts, merges in the order of their ranks.
fn models() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<Merge>)> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..40)
        .prop_map(|choices| {
            let mut tokens: Vec<Vec<u8>> = (0..4_u8).map(|letter| vec![letter]).collect();
            let mut merges = Vec::new();
            for (left, right) in choices {
                let (left, right) = (left.index(tokens.len()), right.index(tokens.len()));
                let whole = [tokens[left].as_slice(), tokens[right].as_slice()].concat();
                if whole.len() > 9 {
                    continue;
                }
                let index = tokens.iter().position(|token| *token == whole).unwrap_or_else(|| {
                    tokens.push(whole);
                    tokens.len() - 1
                });
                let number = |index: usize| u32::try_from(index).expect("few tokens");
                merges.push(Merge {
                    left: number(left),
                    right: number(right),
                    whole: number(index),
                });
            }
            (tokens, merges)
        })
}

fn by_definition(merges: &[Merge], word: &[u8]) -> Vec<u32> {
    let mut word: Vec<u32> = word.iter().map(|letter| u32::from(*letter)).collect();
    loop {
        let best = word
            .windows(2)
            .enumerate()
            .filter_map(|(at, pair)| {
                let rank = merges.iter().rposition(|merge| [merge.left, merge.right] == *pair)?;
                Some((rank, at))
            })
            .min();
        let Some((rank, at)) = best else { return word };
        word.splice(at..at + 2, [merges[rank].whole]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn words_merge_as_defined(
        (tokens, mut merges) in models(),
        order in any::<u64>(),
        word in prop::collection::vec(0..4_u8, 0..150),
        lengths in prop::collection::vec(1..=InterleavedWords::LONGEST, 1..8),
    ) {
        // Ranks in random order, and some pairs listed twice.
        let mut state = order;
        for index in (1..merges.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = usize::try_from(state >> 33).expect("31 bits") % (index + 1);
            if order % 3 == 0 { merges.swap(index, other) } else if order % 3 == 1 { merges[index] = merges[other] }
        }
        let model = Merges::new(tokens.len(), &merges, |token, out| {
            out.extend(tokens[token as usize].iter().map(|letter| u32::from(*letter)));
            true
        });
        let symbols: Vec<u32> = word.iter().map(|letter| model.symbol(u32::from(*letter))).collect();
        let expected = by_definition(&merges, &word);
        let mut short = symbols.clone();
        let mut by_length = symbols.clone();
        reduce_any(&mut short, |left, right| model.pair(left, right), |symbol| symbol);
        let initial = |at: usize| model.pair(symbols[at], symbols[at + 1]);
        model.merge(&mut by_length, &mut Windows::default(), initial);
        let tokens_of = |word: &[u32]| word.iter().map(|symbol| model.tokens()[*symbol as usize]).collect::<Vec<_>>();
        prop_assert_eq!(tokens_of(&short), expected.clone());
        prop_assert_eq!(tokens_of(&by_length), expected.clone());
        let long: Vec<u32> =
            Buckets::default().merge(&model, &symbols, initial).map(|(_, symbol)| symbol).collect();
        prop_assert_eq!(tokens_of(&long), expected.clone());
        let mut windows = Windows::default();
        let mut joined = symbols.clone();
        windows.merge(&model, &mut joined, initial);
        prop_assert_eq!(tokens_of(&joined), expected.clone());
        let (mut interleaved, mut parts, mut at) = (InterleavedWords::default(), Vec::new(), 0);
        for length in lengths.into_iter().cycle() {
            if at == word.len() {
                break;
            }
            let end = word.len().min(at + length);
            let part = &symbols[at..end];
            interleaved.push(parts.len(), part, |at| model.pair(part[at], part[at + 1]));
            parts.push(&word[at..end]);
            at = end;
        }
        model.merge_interleaved(&mut interleaved);
        let mut merged = vec![Vec::new(); parts.len()];
        interleaved.each(|name, symbols| merged[name].extend(symbols));
        for (merged, part) in merged.iter().zip(parts) {
            prop_assert_eq!(tokens_of(merged), by_definition(&merges, part));
        }
    }
}

/// Words in which a few parts are repeated many times: windows disagree on them, and they have long tokens.
fn repetitive() -> impl Strategy<Value = Vec<u8>> {
    let syllable = prop::collection::vec(0..4_u8, 1..12);
    let part = (syllable, 1..40_usize).prop_map(|(syllable, times)| syllable.repeat(times));
    let noise = prop::collection::vec(0..4_u8, 0..40);
    prop::collection::vec(prop_oneof![part, noise], 0..5).prop_map(|parts| parts.concat())
}

/// Sizes so small that words of a hundred letters reach every branch.
fn sizes() -> impl Strategy<Value = WindowSizes> {
    let size = |windows: Range<usize>| {
        (windows, 1..9_usize).prop_map(|(window, overlap)| WindowSize { window, overlap })
    };
    (size(20..70), size(17..30), 1..9_usize, 1..6_usize).prop_map(
        |(large, small, interleaved, long_token)| WindowSizes {
            large,
            small,
            interleaved,
            long_token,
        },
    )
}

/// Merges that double a token, and some others: they make tokens longer than an interleaved window.
fn doubling() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<Merge>)> {
    (models(), 0..4_u8, 1..6_usize).prop_map(|((mut tokens, mut merges), letter, times)| {
        let mut last = u32::from(letter);
        for doubled in 1..=times {
            let text = vec![letter; 1 << doubled];
            let known = tokens.iter().position(|token| *token == text);
            let whole = known.unwrap_or(tokens.len());
            if known.is_none() {
                tokens.push(text);
            }
            let whole = u32::try_from(whole).expect("few tokens");
            merges.push(Merge { left: last, right: last, whole });
            last = whole;
        }
        (tokens, merges)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn windows_of_any_size_are_joined_to_what_is_defined(
        (tokens, merges) in prop_oneof![models(), doubling()],
        word in repetitive(),
        sizes in sizes(),
    ) {
        let model = Merges::new(tokens.len(), &merges, |token, out| {
            out.extend(tokens[token as usize].iter().map(|letter| u32::from(*letter)));
            true
        });
        let symbols: Vec<u32> = word.iter().map(|letter| model.symbol(u32::from(*letter))).collect();
        let initial = |at: usize| model.pair(symbols[at], symbols[at + 1]);
        let mut joined = symbols.clone();
        Windows::default().merge_by(&model, &mut joined, initial, sizes);
        let joined: Vec<u32> = joined.iter().map(|symbol| model.tokens()[*symbol as usize]).collect();
        prop_assert_eq!(joined, by_definition(&merges, &word));
    }
}
