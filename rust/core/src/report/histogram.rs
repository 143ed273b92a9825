//! [`Histogram`]: the number of documents of each length, and the distribution that a report shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::report::timing::ratio;
use crate::util::bits::{BitReader, BitWriter};

/// The distribution of document lengths, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    /// The shortest length.
    pub min: u32,
    /// The median.
    pub p50: u32,
    /// The 90th percentile.
    pub p90: u32,
    /// The 99th percentile.
    pub p99: u32,
    /// The longest length.
    pub max: u32,
    /// The mean.
    pub mean: f64,
}

/// The number of documents of each length, in tokens.
///
/// It is exact until it is [shortened](Histogram::shorten): then lengths are told apart by their leading bits. Their sum, the
/// shortest and the longest stay exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The documents by their lengths, each rounded down to `digits` leading bits. The states of a stream share them.
    counts: Arc<BTreeMap<u32, u64>>,
    digits: u32,
    tokens: u64,
    shortest: u32,
    longest: u32,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = Arc::default();
        Self { counts, digits: u32::BITS, tokens: 0, shortest: u32::MAX, longest: 0 }
    }
}

impl Histogram {
    /// Counts one document.
    pub fn add(&mut self, length: u32) {
        let length_in_count = rounded(length, self.digits);
        *Arc::make_mut(&mut self.counts).entry(length_in_count).or_default() += 1;
        self.tokens += u64::from(length);
        self.shortest = self.shortest.min(length);
        self.longest = self.longest.max(length);
    }

    /// Adds the documents of another histogram. The result tells lengths apart no better than either.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.round_to(other.digits);
        let counts = Arc::make_mut(&mut self.counts);
        for (&length, &count) in &*other.counts {
            *counts.entry(rounded(length, self.digits)).or_default() += count;
        }
        self.tokens += other.tokens;
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
    }

    /// Takes out the documents of another histogram, which were added before. The shortest and the longest stay.
    pub(crate) fn take_out(&mut self, other: &Self) {
        self.round_to(other.digits);
        let counts = Arc::make_mut(&mut self.counts);
        for (&length, &count) in &*other.counts {
            let length = rounded(length, self.digits);
            if let Some(all) = counts.get_mut(&length) {
                *all = all.saturating_sub(count);
            }
        }
        counts.retain(|_, count| *count > 0);
        self.tokens = self.tokens.saturating_sub(other.tokens);
    }

    /// Tells at most `most` lengths apart, by as many leading bits as that allows.
    ///
    /// More lengths never need more bits. So histograms that are shortened at any time, and merged in any order, become the
    /// one that is shortened once at the end.
    pub(crate) fn shorten(&mut self, most: usize) {
        while self.counts.len() > most && self.digits > 1 {
            self.round_to(self.digits.min(u32::BITS - self.longest.leading_zeros()) - 1);
        }
    }

    /// Tells lengths apart by at most so many leading bits.
    fn round_to(&mut self, digits: u32) {
        if digits < self.digits {
            self.digits = digits;
            let counts = Arc::make_mut(&mut self.counts);
            for (length, count) in std::mem::take(counts) {
                *counts.entry(rounded(length, digits)).or_default() += count;
            }
        }
    }

    /// Each length with its number of documents, ascending; none is longer than its documents.
    pub fn pairs(&self) -> Vec<(u32, u64)> {
        self.counts.iter().map(|(&length, &count)| (length, count)).collect()
    }

    fn documents(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The least length, as far as they are told apart, that at least `percent` percent of the documents do not exceed.
    fn quantile(&self, percent: u64) -> u32 {
        self.length_of(self.documents(), percent, |_, count| count)
    }

    /// The least length, as far as they are told apart, such that the documents that do not exceed it hold at least `percent`
    /// percent of the tokens.
    pub(crate) fn length_of_tokens(&self, percent: u64) -> u32 {
        self.length_of(self.tokens, percent, |length, count| u64::from(length) * count)
    }

    /// The least length up to which the documents have `percent` percent of `whole`. `part` gives the share of some
    /// documents of one length.
    fn length_of(&self, whole: u64, percent: u64, part: impl Fn(u32, u64) -> u64) -> u32 {
        let wanted = (u128::from(whole) * u128::from(percent)).div_ceil(100).max(1);
        let mut below = 0_u128;
        for (&length, &count) in &*self.counts {
            below += u128::from(part(length, count));
            if below >= wanted {
                return last_rounded_to(length, self.digits).min(self.longest);
            }
        }
        self.longest
    }

    /// The tokens of all documents together.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The distribution of the lengths, for the report.
    pub(crate) fn lengths(&self) -> Lengths {
        Lengths {
            min: if self.counts.is_empty() { 0 } else { self.shortest },
            p50: self.quantile(50),
            p90: self.quantile(90),
            p99: self.quantile(99),
            max: self.longest,
            mean: ratio(self.tokens, self.documents()),
        }
    }

    /// The histogram as text: about 15 bits for a length.
    fn to_text(&self) -> String {
        let mut bits = BitWriter::default();
        for number in [self.digits, self.shortest, self.longest] {
            bits.number(u64::from(number));
        }
        bits.number(self.tokens);
        bits.number(self.counts.len() as u64);
        let mut before = 0;
        for (&length, &count) in &*self.counts {
            bits.number(u64::from(length - before));
            bits.number(count);
            before = length;
        }
        BASE64_URL_SAFE_NO_PAD.encode(bits.into_bytes())
    }

    /// The histogram from its text; `None` if it is invalid.
    fn from_text(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let mut bits = BitReader::new(&bytes);
        let mut small = || u32::try_from(bits.number()?).ok();
        let (digits, shortest, longest) = (small()?, small()?, small()?);
        let tokens = bits.number()?;
        let mut counts = BTreeMap::new();
        let mut length = 0_u32;
        for _ in 0..bits.number()? {
            length = length.checked_add(u32::try_from(bits.number()?).ok()?)?;
            counts.insert(length, bits.number()?);
        }
        let is_valid = (1..=u32::BITS).contains(&digits);
        is_valid.then_some(Self { counts: Arc::new(counts), digits, tokens, shortest, longest })
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_text(&text).ok_or_else(|| de::Error::custom("is no histogram"))
    }
}

/// The bits of a length that are not among its `digits` leading ones.
fn low_bits(length: u32, digits: u32) -> u32 {
    let low = (u32::BITS - length.leading_zeros()).saturating_sub(digits);
    (1_u32 << low) - 1
}

/// A length rounded down to its leading bits.
fn rounded(length: u32, digits: u32) -> u32 {
    length & !low_bits(length, digits)
}

/// The greatest length that is rounded to `length`.
fn last_rounded_to(length: u32, digits: u32) -> u32 {
    length | low_bits(length, digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lengths: &[u32]) -> Histogram {
        let mut histogram = Histogram::default();
        for &length in lengths {
            histogram.add(length);
        }
        histogram
    }

    fn lengths() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![0..300_u32, 0..70_000_u32, any::<u32>()], 0..80)
    }

    proptest! {
        #[test]
        fn parts_that_are_shortened_at_any_time_become_the_whole_that_is_shortened_once(
            parts in prop::collection::vec((lengths(), any::<bool>()), 0..6), most in 4..60_usize
        ) {
            let all: Vec<u32> = parts.iter().flat_map(|(lengths, _)| lengths.clone()).collect();
            let mut whole = of(&all);
            whole.shorten(most);
            let mut merged = Histogram::default();
            for (lengths, is_shortened) in &parts {
                let mut part = of(lengths);
                if *is_shortened {
                    part.shorten(most);
                    merged.shorten(most);
                }
                merged.merge(&part);
            }
            merged.shorten(most);
            prop_assert_eq!(merged, whole);
        }

        #[test]
        fn parts_that_are_taken_out_and_added_again_change_nothing(
            first in lengths(), second in lengths(), most in 4..60_usize
        ) {
            let (mut whole, part) = (of(&first), of(&second));
            whole.merge(&part);
            whole.shorten(most);
            let mut less = whole.clone();
            less.take_out(&part);
            less.merge(&part);
            less.shorten(most);
            prop_assert_eq!(less, whole);
        }

        #[test]
        fn a_histogram_is_read_as_it_was_written(lengths in lengths(), most in 4..60_usize) {
            let mut histogram = of(&lengths);
            histogram.shorten(most);
            let text = serde_json::to_string(&histogram).expect("text");
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).expect("a histogram"), histogram);
        }

        #[test]
        fn any_text_is_a_histogram_or_none(text in "[A-Za-z0-9_-]{0,60}") {
            let _ = Histogram::from_text(&text);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_lengths_as_far_as_they_are_told_apart(
            mut lengths in lengths(), most in 4..90_usize, percent in 1..100_u64
        ) {
            let mut histogram = of(&lengths);
            histogram.shorten(most);
            lengths.sort_unstable();
            let rank = (lengths.len() as u64 * percent).div_ceil(100).max(1);
            let exact = lengths.get(usize::try_from(rank - 1).expect("small")).copied().unwrap_or(0);
            let found = histogram.quantile(percent);
            prop_assert!(found >= exact);
            prop_assert_eq!(rounded(found, histogram.digits), rounded(exact, histogram.digits));
            prop_assert!(histogram.counts.len() <= most.max(33));
        }
    }

    #[test]
    fn a_thousand_lengths_keep_seven_bits_of_each() {
        let mut histogram = of(&(0..2_000_000).collect::<Vec<_>>());
        histogram.shorten(1024);
        assert!(histogram.digits >= 7, "{}", histogram.digits);
    }
}
