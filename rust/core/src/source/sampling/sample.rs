//! [`Sample`]: the part of the files from which `scan(sample=)` estimates the whole.
//!
//! A line file is read in windows spread over it. A record belongs to the window in which it begins, so long
//! records are no likelier to be read than short ones. Of any other file all is read if that is quick, else extents spread over it,
//! or its beginning where it has no extents. Records are taken from all over the part that was read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sequential::Through;
use crate::source::discovery::found::{FoundFiles, SourceFile};
use crate::source::formats::format::Container;

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
    /// The fraction of each file without random access that is read, no less than the fraction that is taken.
    reach: f64,
    /// Bytes of a window.
    window: f64,
    seed: u64,
    /// Bytes of the records that were taken.
    bytes: Arc<AtomicU64>,
    /// Bytes read of files without random access.
    read: Arc<AtomicU64>,
}

impl Sample {
    pub(crate) fn part(share: f64, window: f64, seed: u64) -> Option<Self> {
        let (bytes, read) = (Arc::default(), Arc::default());
        (share < 1.0).then_some(Self { share, reach: 1.0, window, seed, bytes, read })
    }

    /// Sets the fraction that is read of files without random access.
    pub(crate) fn reaching(self, reach: f64) -> Self {
        Self { reach, ..self }
    }

    /// Bytes of the records that were taken.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes read of files without random access.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The fraction of each file without random access that is read, from its beginning.
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
        for number in 0..count {
            let edge = |number: u64| {
                let at = u128::from(size) * u128::from(number) / u128::from(count);
                u64::try_from(at).expect("at most the size")
            };
            let (start, end) = (edge(number), edge(number + 1));
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

    /// True if the extent of this number among `all` of the files that are entered is read: one by chance of each stretch of as many,
    /// since what lies at equal distances may be alike.
    pub(super) fn takes_extent(&self, number: u64, all: u64) -> bool {
        let wanted = u128::from(self.extents(all));
        let at = |share: u128| {
            u64::try_from(share * u128::from(all) / wanted).expect("at most all extents")
        };
        // The stretch in which it lies.
        let stretch = (u128::from(number) * wanted + wanted - 1) / u128::from(all.max(1));
        let (start, end) = (at(stretch), at(stretch + 1));
        let place = u64::try_from(stretch).expect("fewer stretches than extents");
        start + self.chance(0, 0, place, (end - start).max(1)) == number
    }

    /// The extents that are read of `all`: the part that is read of other files, and one at least.
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
    ) -> Through {
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
        Through::new(end, self.share / reach, group, chance)
    }

    /// Counts bytes of the windows of a line file.
    pub(super) fn count_lines(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes read and taken of such a file.
    pub(crate) fn count(&self, through: &Through) {
        self.read.fetch_add(through.bytes(), Ordering::Relaxed);
        self.bytes.fetch_add(through.bytes_taken(), Ordering::Relaxed);
    }

    /// A number below `bound` that depends only on the seed and the place.
    fn chance(&self, file: usize, times: u64, window: u64, bound: u64) -> u64 {
        let mut hasher = blake3::Hasher::new();
        for number in [self.seed, file as u64, times, window] {
            hasher.update(&number.to_le_bytes());
        }
        let hash = hasher.finalize();
        let lot = u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash of 32 bytes"));
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
            let taken = (0..all).filter(|number| sample.takes_extent(*number, all)).count() as u64;
            prop_assert_eq!(taken, sample.extents(all));
        }
    }

    #[test]
    fn extents_at_equal_distances_are_as_likely_as_others() {
        let mut times = [0_u32; 8];
        for seed in 0..400 {
            let sample = Sample::part(0.001, 1.0, seed).expect("less than all").reaching(0.25);
            for (number, times) in (0..).zip(&mut times) {
                *times += u32::from(sample.takes_extent(number, 8));
            }
        }
        assert!(times.iter().all(|times| (60..=140).contains(times)), "{times:?}");
    }
}
