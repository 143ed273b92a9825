//! [`Sample`]: the part of the files from which `scan(sample=)` estimates the whole.
//!
//! A line file is read in windows that are spread over it: a record belongs to the window that it begins in, so long
//! records are no likelier to be read than short ones. What cannot be entered in the middle is read from its beginning on,
//! to the end where that takes a moment, and records are taken all over what was read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::Container;
use super::found::SourceFile;
use super::through::Through;
use super::windows::WindowReader;
use crate::error::Result;

/// Records of a window, about: neighbours are alike, so a few here and a few there tell more than many in one place.
pub(super) const WINDOW_RECORDS: f64 = 8.0;

/// The denominator of random fractions.
const WHOLE: u64 = 1 << 32;

/// Groups that are taken of a file which cannot be entered, if there are so many records: fewer tell too little of it.
const LEAST_GROUPS: f64 = 64.0;

/// Records of a group at most. What is read between two groups drives the vocabulary out of a processor's caches: with 8
/// records to a group, a token of a compressed file seemed to take 86 ns rather than 58 (November 2026, `qwen`, chats).
const MOST_TOGETHER: f64 = 32.0;

/// A part of all files, the same one for the same seed.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The sampled fraction of all records, above 0 and below 1.
    share: f64,
    /// The part of each file that is read, of those that cannot be entered; no less than what is taken.
    reach: f64,
    /// Bytes of a window.
    window: f64,
    seed: u64,
    /// Bytes of the records that were taken.
    bytes: Arc<AtomicU64>,
    /// Bytes that were read of files that cannot be entered.
    read: Arc<AtomicU64>,
}

impl Sample {
    pub(super) fn part(share: f64, window: f64, seed: u64) -> Option<Self> {
        let (bytes, read) = (Arc::default(), Arc::default());
        (share < 1.0).then_some(Self { share, reach: 1.0, window, seed, bytes, read })
    }

    /// The same sample, of which files that cannot be entered are read up to this part.
    pub(super) fn reaching(self, reach: f64) -> Self {
        Self { reach, ..self }
    }

    /// Bytes of the records that were taken.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were read of files that cannot be entered in the middle.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The part of each file that is read, from its beginning on, of those that cannot be entered in the middle.
    pub fn reach(&self) -> f64 {
        self.reach
    }

    /// Whether the windows of `file` are spread over it.
    pub fn spreads_over(file: &SourceFile) -> bool {
        file.format.container == Container::Lines && file.format.compression.is_none()
    }

    /// The windows of a line file, which is read for the `times`th time; its records are told by the byte they begin at.
    pub(super) fn open(&self, file: &SourceFile, at: usize, times: u64) -> Result<WindowReader> {
        let windows = self.windows(file.size, at, times);
        WindowReader::open(&file.path, windows, Arc::clone(&self.bytes))
    }

    /// Stretches of a file of `size` bytes that every byte is as likely to be in as any other.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size is a size; a byte more or less is none too many"
    )]
    fn windows(&self, size: u64, at: usize, times: u64) -> Vec<Range<u64>> {
        let count = (self.share * size as f64 / self.window).round().max(1.0) as u64;
        let mut windows = Vec::new();
        for number in 0..count {
            let edge = |number: u64| {
                let at = u128::from(size) * u128::from(number) / u128::from(count);
                u64::try_from(at).expect("at most the size")
            };
            let (start, end) = (edge(number), edge(number + 1));
            // Of many small files, a part of a byte each is some bytes.
            let chance = self.chance(at, times, number, WHOLE) as f64 / WHOLE as f64;
            let length = (self.share * (end - start) as f64 + chance) as u64;
            let from = start + self.chance(at, times, count + number, end - start);
            // What would reach beyond the end of its part goes on at the beginning of it.
            let beyond = (from + length).saturating_sub(end);
            windows.push(start..start + beyond);
            windows.push(from..end.min(from + length));
        }
        windows.retain(|window| !window.is_empty());
        windows
    }

    /// The sample of a file that cannot be entered in the middle, in its `times`th reading.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size is a size"
    )]
    pub(super) fn through(&self, file: &SourceFile, at: usize, times: u64) -> Through {
        let size = file.size as f64;
        let chance = self.chance(at, times, file.size, WHOLE) as f64 / WHOLE as f64;
        let records = self.share * size / self.window * WINDOW_RECORDS;
        let group = (records / LEAST_GROUPS).clamp(1.0, MOST_TOGETHER) as u64;
        // Bytes are read before the records in them: those of the end are there before the last records are.
        let end = if self.reach < 1.0 { (self.reach * size).ceil() as u64 } else { u64::MAX };
        Through::new(end, self.share / self.reach, group, chance)
    }

    /// Counts the bytes read and taken of such a file.
    pub(super) fn count(&self, through: &Through) {
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
