//! Finds the places at which a word can be cut without a change of its tokens.
//!
//! A word is cut between two characters that stand side by side in no token. The best path then ends a token
//! there, so both parts have the tokens that they have in the word, if sums of scores are exact: the parts'
//! sums start at zero, the word's at the sum before the cut.

use crate::models::neighbours::Neighbours;
use crate::split::decode;

/// The pairs of characters between which a word is cut.
pub(crate) struct CutPairs {
    neighbours: Neighbours,
    /// Bytes of the longest text in which sums of scores are exact.
    longest: usize,
}

impl CutPairs {
    /// The cuts for tokens with these scores; `unknown` is the unknown token, `least` the score of an unknown
    /// character.
    pub(super) fn new<'a>(
        tokens: &(impl Iterator<Item = &'a [u8]> + Clone),
        scores: &[f64],
        unknown: usize,
        least: f64,
    ) -> Self {
        let texts = || tokens.clone().filter_map(|token| std::str::from_utf8(token).ok());
        let adjacent = |text: &'a str| text.chars().zip(text.chars().skip(1));
        let mut neighbours = Neighbours::new(
            texts().flat_map(adjacent).map(|(left, right)| (left.into(), right.into())),
        );
        // Adjacent unknown characters are one token, and the unknown token, which can stand in a text too, is one with
        // those beside it.
        let unknown = tokens.clone().nth(unknown).and_then(|token| std::str::from_utf8(token).ok());
        let unknown = unknown.unwrap_or_default();
        let alone = |text: &str| {
            let mut characters = text.chars();
            characters.next().filter(|_| characters.next().is_none())
        };
        let known = texts()
            .filter_map(alone)
            .filter(|c| !unknown.starts_with(*c) && !unknown.ends_with(*c));
        neighbours.join_unknown(known.map(u32::from));
        Self { neighbours, longest: longest(scores, least) }
    }

    /// True if words of a text of this length in bytes may be cut.
    #[inline]
    pub(crate) fn apply(&self, bytes: usize) -> bool {
        bytes <= self.longest
    }

    /// True if a word is cut between two characters.
    #[inline]
    pub(crate) fn is_between(&self, left: u32, right: u32) -> bool {
        !self.neighbours.joins(left, right)
    }

    /// The first place at which a word, which is UTF-8, is cut, or its end.
    pub(crate) fn next(&self, word: &[u8]) -> usize {
        if !self.apply(word.len()) || word.is_empty() {
            return word.len();
        }
        let (mut last, mut at) = decode(word, 0);
        while at < word.len() {
            let (next, length) = decode(word, at);
            if self.is_between(last, next) {
                break;
            }
            (last, at) = (next, at + length);
        }
        at
    }
}

/// Bytes of the longest text for which every sum of scores is exact in 64 bits: all scores are multiples of some
/// power of two, and no sum has more than 53 bits above it. Scores that were trained in 32 bits are such.
fn longest(scores: &[f64], least: f64) -> usize {
    let all = || scores.iter().copied().chain([least]).filter(|score| *score != 0.0);
    let lowest = all().map(lowest_bit).min().unwrap_or(0);
    let largest = all().map(f64::abs).fold(1.0, f64::max);
    let most = 2.0_f64.powi(lowest.saturating_add(52)) / largest;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to an integer saturates"
    )]
    let longest = most as usize;
    // The word's `▁` in front counts too.
    longest.saturating_sub(1)
}

/// The exponent of the lowest bit that is set in a number other than zero.
fn lowest_bit(number: f64) -> i32 {
    let bits = number.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = i32::try_from(bits >> 52 & 0x7FF).unwrap_or_default();
    match (exponent, fraction) {
        (0, _) => -1074,
        (exponent, 0) => exponent - 1023,
        (exponent, _) => {
            exponent - 1075 + i32::try_from(fraction.trailing_zeros()).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bit_of_a_number_is_found() {
        let cases =
            [(1.0, 0), (-0.75, -2), (10.0, 1), (0.1_f32.into(), -27), (f64::MIN_POSITIVE, -1022)];
        for (number, expected) in cases {
            assert_eq!(lowest_bit(number), expected, "{number}");
        }
        assert_eq!(lowest_bit(0.1), -55);
    }

    #[test]
    fn words_are_cut_where_no_token_stands_and_an_unknown_character_ends() {
        let tokens = ["a", "b", ",", "ab", "▁", "▁a", "。", "中文", "中", "x中"];
        let cuts = CutPairs::new(&tokens.iter().map(|it| it.as_bytes()), &[-1.0; 10], 10, -11.0);
        let is_cut = |cuts: &CutPairs, text: &str| {
            let both: Vec<u32> = text.chars().map(u32::from).collect();
            cuts.is_between(both[0], both[1])
        };
        let cut = [
            "ba", "a,", ",a", "a中", "中a", "z,", ",z", "a。", "。中", "。。", "中,", "a▁", "▁。",
            "中中",
        ];
        for text in cut {
            assert!(is_cut(&cuts, text), "{text}");
        }
        for text in ["ab", "zq", "文文", "中文", "▁a", "x中", "q文"] {
            assert!(!is_cut(&cuts, text), "{text}");
        }
        let unknown = ["<u>", "<", ">", "a", ","];
        let cuts = CutPairs::new(&unknown.iter().map(|it| it.as_bytes()), &[-1.0; 5], 0, -11.0);
        for text in ["z<", ">z", "><", ">>", "zz"] {
            assert!(!is_cut(&cuts, text), "{text}");
        }
        for text in ["a,", "a<", ">,", "z,"] {
            assert!(is_cut(&cuts, text), "{text}");
        }
        assert!(cuts.apply(1 << 30));
        assert!(!CutPairs::new(&[&b"a"[..]].into_iter(), &[-0.1], 0, -10.1).apply(100));
    }
}
