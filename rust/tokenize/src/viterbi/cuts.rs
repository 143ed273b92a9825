//! Finds the places at which a word can be cut without a change of its tokens.
//!
//! A word is cut between two characters that stand side by side in no token. The best path then ends a token
//! there, so both parts have the tokens that they have in the word, if sums of scores are exact: the parts'
//! sums start at zero, the word's at the sum before the cut.

/// The class of every other character outside ASCII.
const WIDE: u8 = 128;

/// The class of characters outside ASCII that are tokens, and that no longer token has beside a character.
const ALONE: u8 = 129;

/// The class of `▁`, beside which nothing is cut.
pub(crate) const META: u8 = 130;

/// Code points of the characters whose class is looked up; later ones are [`WIDE`].
const LISTED: usize = 1 << 16;

/// The pairs of characters between which a word is cut.
pub(crate) struct Cuts {
    /// The classes before which a cut is made, by the class of the character in front.
    before: Box<[[u64; 4]; 256]>,
    /// The characters of the class [`ALONE`], by code point.
    alone: Box<[u64]>,
    /// Bytes of the longest text in which sums of scores are exact.
    longest: usize,
}

impl Cuts {
    /// The cuts for tokens with these scores; `unknown` is the unknown token, `least` the score of an unknown
    /// character.
    pub(super) fn new<'a>(
        tokens: &(impl Iterator<Item = &'a [u8]> + Clone),
        scores: &[f64],
        (unknown, least): (usize, f64),
    ) -> Self {
        let texts = || tokens.clone().filter_map(|token| std::str::from_utf8(token).ok());
        let mut single = [false; 128];
        let mut alone = vec![0_u64; LISTED / 64];
        for text in texts() {
            let mut characters = text.chars();
            match (characters.next(), characters.next()) {
                (Some(c), None) if c.is_ascii() => single[c as usize] = true,
                (Some(c), None) if (c as usize) < LISTED && c != '▁' => {
                    alone[c as usize / 64] |= 1 << (c as usize % 64);
                }
                _ => {}
            }
        }
        let mut beside = vec![[false; WIDE as usize + 1]; WIDE as usize + 1];
        for text in texts() {
            let mut previous = '▁';
            for c in text.chars() {
                if previous != '▁' && c != '▁' {
                    let [left, right] = [previous, c].map(|c| (c as usize).min(WIDE.into()));
                    beside[left][right] = true;
                    for c in [previous, c] {
                        if let Some(word) = alone.get_mut(c as usize / 64) {
                            *word &= !(1 << (c as usize % 64));
                        }
                    }
                }
                previous = c;
            }
        }
        // The unknown token can stand in a text too, and is one token with unknown characters beside it.
        let unknown = tokens.clone().nth(unknown).and_then(|token| std::str::from_utf8(token).ok());
        let [begins, ends] =
            unknown.map_or([None; 2], |text| [text.chars().next(), text.chars().last()]);
        for c in [begins, ends].into_iter().flatten() {
            if let Some(word) = alone.get_mut(c as usize / 64) {
                *word &= !(1 << (c as usize % 64));
            }
        }
        let [begins, ends] =
            [begins, ends].map(|c| c.map(|c| u8::try_from(c).unwrap_or(WIDE).min(WIDE)));
        let mut before = Box::new([[0_u64; 4]; 256]);
        let known = |class: u8| class == ALONE || single.get(usize::from(class)) == Some(&true);
        let wide = |class: u8| usize::from(class.min(WIDE));
        for (left, row) in (0..META).zip(before.iter_mut()) {
            for right in 0..META {
                let apart = [left, right].contains(&ALONE) || !beside[wide(left)][wide(right)];
                // Adjacent unknown characters are one token.
                let joins = Some(right) == begins || Some(left) == ends;
                if apart && !joins && (known(left) || known(right)) {
                    row[usize::from(right) / 64] |= 1 << (right % 64);
                }
            }
        }
        Self { before, alone: alone.into(), longest: longest(scores, least) }
    }

    /// Whether words of a text of so many bytes may be cut.
    #[inline]
    pub(crate) fn apply(&self, bytes: usize) -> bool {
        bytes <= self.longest
    }

    /// Whether a word is cut between two characters, given by their classes.
    #[inline]
    pub(crate) fn is_between(&self, left: u8, right: u8) -> bool {
        self.before[usize::from(left)][usize::from(right) / 64] >> (right % 64) & 1 == 1
    }

    /// The class of a character outside ASCII; the class of another one is its byte.
    #[inline]
    pub(crate) fn class(&self, code_point: u32) -> u8 {
        if code_point == u32::from('▁') {
            return META;
        }
        let place = code_point as usize;
        let alone = self.alone.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1);
        if alone { ALONE } else { WIDE }
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
        let cuts = Cuts::new(&tokens.iter().map(|it| it.as_bytes()), &[-1.0; 10], (10, -11.0));
        let class = |c: char| {
            u8::try_from(c).ok().filter(u8::is_ascii).unwrap_or_else(|| cuts.class(c.into()))
        };
        let is_cut = |text: &str| {
            let both: Vec<u8> = text.chars().map(class).collect();
            cuts.is_between(both[0], both[1])
        };
        for text in ["ba", "a,", ",a", "a中", "中a", "z,", ",z", "a。", "。中", "。。", "中,"]
        {
            assert!(is_cut(text), "{text}");
        }
        for text in ["ab", "zq", "中文", "文中", "▁a", "a▁", "x中", "q文"] {
            assert!(!is_cut(text), "{text}");
        }
        let unknown = ["<u>", "<", ">", "a", ","];
        let cuts = Cuts::new(&unknown.iter().map(|it| it.as_bytes()), &[-1.0; 5], (0, -11.0));
        for [left, right] in [*b"a<", *b">a", *b",<", *b">,"] {
            assert!(!cuts.is_between(left, right), "{left} {right}");
        }
        assert!(cuts.is_between(b'a', b',') && cuts.is_between(b'a', b'>'));
        assert!(cuts.apply(1 << 30));
        assert!(!Cuts::new(&[&b"a"[..]].into_iter(), &[-0.1], (0, -10.1)).apply(100));
    }
}
