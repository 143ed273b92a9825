//! [`Sample`]: a part of the files that stands for all of them.
//!
//! A line file is read in windows that are spread over it: a record belongs to the window that it begins in, so long
//! records are no likelier to be read than short ones. What cannot be entered in the middle is read from its beginning on.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::Block;
use super::blocks::Blocks;
use super::windows::WindowReader;
use super::{Container, Found, SourceFile};
use crate::config::Source;
use crate::error::Result;

/// Records of a window, about: neighbours are alike, so a few here and a few there tell more than many in one place.
const WINDOW_RECORDS: f64 = 8.0;

/// How many windows of a file are looked at to tell how long records are, and the bytes of each.
const PILOT: (f64, f64) = (16.0, 4096.0);

/// What is left to chance of a byte or a record is a part of this.
const WHOLE: u64 = 1 << 32;

/// Files whose first records are looked at to tell how long records are.
const PILOTS: usize = 8;

/// A part of all files, the same one for the same seed.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The part, above 0 and below 1.
    share: f64,
    /// Bytes of a window.
    window: f64,
    seed: u64,
    /// Bytes of the records that were read.
    bytes: Arc<AtomicU64>,
}

impl Sample {
    /// About `records` of all records; nothing if that is all of them.
    pub fn of(records: u64, seed: u64, found: &Found) -> Result<Option<Self>> {
        let mean = mean_record(found, seed)?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let share = records as f64 * mean / found.bytes().max(1) as f64;
        Ok(Self::part(share, mean * WINDOW_RECORDS, seed))
    }

    fn part(share: f64, window: f64, seed: u64) -> Option<Self> {
        (share < 1.0).then(|| Self { share, window, seed, bytes: Arc::default() })
    }

    /// Bytes of the records that were read.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
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

    /// Leaves out of `block` what is behind the share of its file, of which `before` bytes were read before it; returns
    /// whether that is the end of what is read of it.
    pub(super) fn limit(
        &self,
        block: &mut Block,
        file: &SourceFile,
        before: u64,
        times: u64,
    ) -> bool {
        let records = block.limit(u64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a part of a block")]
        let part = (self.share * file.size as f64 - before as f64) / block.size.max(1) as f64;
        if part >= 1.0 {
            self.bytes.fetch_add(block.size, Ordering::Relaxed);
            return false;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the records of a block"
        )]
        let wanted = {
            let chance = self.chance(block.file, times, before, WHOLE) as f64 / WHOLE as f64;
            (records as f64 * part.max(0.0) + chance) as u64
        };
        let taken = block.limit(wanted);
        let bytes = u128::from(block.size) * u128::from(taken) / u128::from(records.max(1));
        self.bytes.fetch_add(u64::try_from(bytes).unwrap_or(block.size), Ordering::Relaxed);
        true
    }

    /// A number below `bound` that nothing but the seed and the place decides.
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

/// Bytes that a record has on average, by some records of some files.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn mean_record(found: &Found, seed: u64) -> Result<f64> {
    let (mut bytes, mut records) = (0, 0);
    let step = found.files.len().div_ceil(PILOTS).max(1);
    for file in found.files.iter().step_by(step) {
        let source = Source { repeat: NonZeroU64::MIN, ..found.sources[file.source].clone() };
        let alone = SourceFile { source: 0, ..file.clone() };
        let alone = Found { sources: vec![source], files: vec![alone], ..Found::default() };
        let (count, window) = PILOT;
        let pilot = Sample::part(count * window / file.size.max(1) as f64, window, seed);
        let pilot = pilot.filter(|_| Sample::spreads_over(file));
        let mut blocks = Blocks::new(alone).sampled(pilot.clone());
        while let Some(mut block) = blocks.next_block()? {
            records += block.limit(u64::MAX);
            if pilot.is_none() {
                bytes += block.size;
                break;
            }
        }
        bytes += pilot.map_or(0, |pilot| pilot.bytes());
    }
    Ok(bytes as f64 / records.max(1) as f64)
}
