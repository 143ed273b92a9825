//! [`Sample`]: the part of the files from which `scan(sample=)` estimates the whole.
//!
//! A line file is read in windows spread over it. A record belongs to the window in which it begins, so long
//! records are no likelier to be read than short ones. Of any other file all is read if that is quick, else extents spread over it,
//! or its beginning where it has no extents. Records are taken from all over the part that was read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sequential::SequentialSample;
use crate::source::discovery::found::{FoundFiles, SourceFile};
use crate::source::extents::places::equal_parts;
use crate::source::formats::format::Container;
use crate::util::random::number_of;

/// The approximate number of records of a window. Neighbours are alike, so many small windows tell more than
/// a large one.
pub(crate) const WINDOW_RECORDS: f64 = 8.0;

/// The denominator of random fractions.
const WHOLE: u64 = 1 << 32;

/// The least number of groups taken from a file without random access, if it has enough records: fewer would
/// say too little.
const LEAST_GROUPS: f64 = 64.0;

/// The most records of a group. The records read between two groups displace the vocabulary in a processor's
/// caches: with 8 records to a group, a token of a compressed file seemed to take 86 ns rather than 58
/// (November 2026, `qwen`, chats).
const MOST_TOGETHER: f64 = 32.0;

/// A part of all files. The same seed gives the same part.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The sampled fraction of all records, above 0 and below 1.
    share: f64,
    /// The fraction that is read of files that are not read by windows, no less than the fraction that is taken.
    reach: f64,
    /// Bytes of a window.
    window: f64,
    seed: u64,
    /// Bytes of the records that were taken.
    bytes: Arc<AtomicU64>,
    /// Bytes read of files that are not read by windows.
    read: Arc<AtomicU64>,
}

impl Sample {
    pub(crate) fn part(share: f64, window: f64, seed: u64) -> Option<Self> {
        let (bytes, read) = (Arc::default(), Arc::default());
        (share < 1.0).then_some(Self { share, reach: 1.0, window, seed, bytes, read })
    }

    /// Sets the fraction that is read of files that are not read by windows.
    pub(crate) fn reaching(self, reach: f64) -> Self {
        Self { reach, ..self }
    }

    /// Bytes of the records that were taken.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes read of files that are not read by windows.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The fraction that is read of files that are not read by windows.
    pub fn reach(&self) -> f64 {
        self.reach
    }

    /// True if the windows of `file` are spread over it.
    pub fn spreads_over(file: &SourceFile) -> bool {
        file.format.container == Container::Lines && file.format.compression.is_none()
    }

    /// Windows of a line file of `size` bytes in its `times`th reading. Every byte is equally likely to be in one, and a record
    /// belongs to the window in which it begins.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size is a size; a byte more or less is none too many"
    )]
    pub(super) fn windows(&self, size: u64, at: usize, times: u64) -> Vec<Range<u64>> {
        let count = (self.share * size as f64 / self.window).round().max(1.0) as u64;
        let mut windows = Vec::new();
        for (number, Range { start, end }) in (0..).zip(equal_parts(0..size, count)) {
            // For many small files, a fraction of a byte each adds up to some bytes.
            let chance = self.chance(at, times, number, WHOLE) as f64 / WHOLE as f64;
            let length = (self.share * (end - start) as f64 + chance) as u64;
            let from = start + self.chance(at, times, count + number, end - start);
            // A window that would reach beyond the end of its part continues at the beginning of it.
            let beyond = (from + length).saturating_sub(end);
            windows.push(start..start + beyond);
            windows.push(from..end.min(from + length));
        }
        windows.retain(|window| !window.is_empty());
        windows
    }

    /// The numbers of the extents that are read of `all`: one by chance of each part of them, since extents at equal distances may be
    /// alike.
    pub(super) fn chosen_extents(&self, all: u64) -> impl Iterator<Item = u64> {
        let parts = (0..).zip(equal_parts(0..all, self.extents(all)));
        parts.map(|(number, part)| part.start + self.chance(0, 0, number, part.end - part.start))
    }

    /// The number of extents that are read of `all`: the fraction that is read of other files, and one at least.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a number is a number"
    )]
    fn extents(&self, all: u64) -> u64 {
        ((self.reach * all as f64).round() as u64).clamp(1, all.max(1))
    }

    /// The bytes that are read of all files, about.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size is a size"
    )]
    pub(super) fn size_of(&self, found: &FoundFiles) -> u64 {
        let (spread, through): (Vec<_>, Vec<_>) =
            found.files.iter().partition(|file| Self::spreads_over(file));
        let (spread, through) = (found.bytes_of(spread), found.bytes_of(through));
        (self.share * spread as f64 + self.reach * through as f64) as u64
    }

    /// The sample of a file that is not read by windows, in its `times`th reading: of its beginning, or of its extents.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size is a size"
    )]
    pub(super) fn through(
        &self,
        file: &SourceFile,
        at: usize,
        times: u64,
        all: Option<u64>,
    ) -> SequentialSample {
        let size = file.size as f64;
        let chance = self.chance(at, times, file.size, WHOLE) as f64 / WHOLE as f64;
        let records = self.share * size / self.window * WINDOW_RECORDS;
        let group = (records / LEAST_GROUPS).clamp(1.0, MOST_TOGETHER) as u64;
        // Bytes are read before their records are parsed, so the end may be reached before the last records
        // are.
        let is_all = all.is_some() || self.reach >= 1.0;
        let end = if is_all { u64::MAX } else { (self.reach * size).ceil() as u64 };
        let part = |all: u64| self.extents(all) as f64 / all.max(1) as f64;
        let reach = all.map_or(self.reach, part);
        SequentialSample::new(end, self.share / reach, group, chance)
    }

    /// Counts bytes of the windows of a line file.
    pub(super) fn count_lines(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes read and taken of such a file.
    pub(crate) fn count(&self, through: &SequentialSample) {
        self.read.fetch_add(through.bytes(), Ordering::Relaxed);
        self.bytes.fetch_add(through.bytes_taken(), Ordering::Relaxed);
    }

    /// A number below `bound` that depends only on the seed and the place.
    fn chance(&self, file: usize, times: u64, window: u64, bound: u64) -> u64 {
        let lot = number_of(&[self.seed, file as u64, times, window]);
        u64::try_from((u128::from(lot) * u128::from(bound)) >> 64).expect("below `bound`")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_many_extents_are_read_as_are_wanted(all in 1_u64..500, percent in 1_u32..100, seed: u64) {
            let part = Sample::part(0.001, 1.0, seed).expect("less than all");
            let sample = part.reaching(f64::from(percent) / 100.0);
            let chosen: Vec<u64> = sample.chosen_extents(all).collect();
            prop_assert_eq!(chosen.len() as u64, sample.extents(all));
            prop_assert!(chosen.iter().is_sorted_by(|a, b| a < b) && chosen.iter().all(|at| *at < all));
        }
    }

    #[test]
    fn extents_at_equal_distances_are_as_likely_as_others() {
        let mut times = [0_u32; 8];
        for seed in 0..400 {
            let sample = Sample::part(0.001, 1.0, seed).expect("less than all").reaching(0.25);
            for number in sample.chosen_extents(8) {
                times[usize::try_from(number).expect("one of eight")] += 1;
            }
        }
        assert!(times.iter().all(|times| (60..=140).contains(times)), "{times:?}");
    }
}
