//! Merging against the definition: scan for the lowest rank, leftmost, and merge it.

use proptest::prelude::*;

use super::buckets::Buckets;
use super::windows::Size;
use super::*;

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
        word in prop::collection::vec(0..4_u8, 0..300),
    ) {
        // Ranks that come in no sensible order, and now and then a pair twice.
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
        windows.merge_by(&model, &mut joined, initial, Size { window: 16, overlap: 4 });
        prop_assert_eq!(tokens_of(&joined), expected.clone());
        joined.clone_from(&symbols);
        windows.merge_by(&model, &mut joined, initial, Size { window: 40, overlap: 1 });
        prop_assert_eq!(tokens_of(&joined), expected.clone());
        joined.clone_from(&symbols);
        windows.merge(&model, &mut joined, initial);
        prop_assert_eq!(tokens_of(&joined), expected);
        let parts: Vec<(&[u8], &[u32])> =
            word.chunks(Lane::LONGEST).zip(symbols.chunks(Lane::LONGEST)).collect();
        let mut lanes: Vec<Lane> = (0..).zip(&parts).map(|(name, (_, symbols))| {
            Lane::new(name, symbols, |at| model.pair(symbols[at], symbols[at + 1]))
        }).collect();
        model.merge_all(&mut lanes);
        prop_assert_eq!(lanes.len(), parts.len());
        for lane in &lanes {
            let merged: Vec<u32> = lane.symbols().collect();
            prop_assert_eq!(tokens_of(&merged), by_definition(&merges, parts[lane.name()].0));
        }
    }
}
