//! The form of each character after it is decomposed and its accents are stripped.
//!
//! The linked crate is run once, on the few thousand characters that change.

use std::sync::LazyLock;

use tokenizers::normalizers::BertNormalizer;
use tokenizers::{NormalizedString, Normalizer};

use super::bert::STRIPS;
use super::tables::BERT_RUNS;

/// The stripped forms of the characters that change, by code point.
struct AccentlessForms {
    /// For each code point up to the last one that changes, the end of its stripped form in `text`; the
    /// lowest [`LENGTH_BITS`] are the length in bytes.
    ends: Vec<u32>,
    /// The stripped forms, one after the other.
    text: String,
}

/// Bits of the length: a stripped form is shorter than 2^6 bytes, three letters at most.
const LENGTH_BITS: u32 = 6;

static TABLE: LazyLock<AccentlessForms> = LazyLock::new(AccentlessForms::new);

impl AccentlessForms {
    fn new() -> Self {
        let ends = BERT_RUNS.iter().skip(1).map(|run| run.0).chain([0x11_0000]);
        let changed: Vec<char> = BERT_RUNS
            .iter()
            .zip(ends)
            .filter(|((_, bits), _)| bits & STRIPS != 0)
            .flat_map(|((start, _), end)| *start..end)
            .filter_map(char::from_u32)
            .collect();
        // A line feed is never in a stripped form, and no mark moves across it.
        let mut lines = String::new();
        for c in &changed {
            lines.push(*c);
            lines.push('\n');
        }
        let mut lines = NormalizedString::from(lines);
        BertNormalizer::new(false, false, Some(true), false)
            .normalize(&mut lines)
            .expect("taking accents away has no way to fail");
        let last = changed.last().map_or(0, |last| *last as usize);
        let mut strips = Self { ends: vec![0; last + 1], text: String::new() };
        for (c, rest) in changed.iter().zip(lines.get().split('\n')) {
            strips.text.push_str(rest);
            let packed = strips.text.len() << LENGTH_BITS | rest.len();
            strips.ends[*c as usize] = u32::try_from(packed).unwrap_or(0);
        }
        strips
    }
}

/// The stripped form of a character with the bit [`STRIPS`].
pub(crate) fn stripped(code_point: u32) -> &'static str {
    let table: &'static AccentlessForms = &TABLE;
    let packed = table.ends.get(code_point as usize).copied().unwrap_or(0);
    let end = (packed >> LENGTH_BITS) as usize;
    let length = (packed & ((1 << LENGTH_BITS) - 1)) as usize;
    table.text.get(end.saturating_sub(length)..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accent_is_taken_away_and_a_syllable_falls_apart() {
        assert_eq!(stripped(u32::from('é')), "e");
        assert_eq!(stripped(0x301), "");
        assert_eq!(stripped(u32::from('각')), "\u{1100}\u{1161}\u{11a8}");
    }
}
