//! Chooses how much of the files a [`Sample`] reads, from a few of their records.

use std::num::NonZeroU64;

use super::sample::{Sample, WINDOW_RECORDS};
use super::sampled_blocks::SampledBlocks;
use crate::config::Source;
use crate::error::Result;
use crate::source::blocks::Blocks;
use crate::source::compression::Compression;
use crate::source::discovery::found::{FoundFiles, SourceFile};
use crate::source::extents::parts::known_count;
use crate::source::extents::zstd_frames::ZstdFrames;
use crate::source::formats::format::Container;
use crate::source::input_blocks::InputBlocks;
use crate::util::control::Control;

/// The number of windows of a file from which the length of records is estimated, and the bytes of each.
const PILOT: (f64, f64) = (16.0, 4096.0);

/// The number of files from which the length of records is estimated.
const PILOTS: usize = 8;

/// The bytes that are read of a file of zstd frames.
const PILOT_FRAMES: f64 = 4e6;

/// The least number of blocks and bytes that are read of a file without random access. The first block is
/// often unlike the rest, and those of tables may be small.
const PILOT_STRETCH: (usize, u64) = (4, 512 << 10);

/// The seconds for which files without random access are read, all together on one core: as long as a person
/// waits without noticing.
const READ_ON: f64 = 1.0;

impl Sample {
    /// A sample of about `records` records; `None` if that is all of them.
    pub fn of(
        records: u64,
        seed: u64,
        found: &FoundFiles,
        control: &Control,
    ) -> Result<Option<Self>> {
        let mean = mean_record(found, seed, control)?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let share = records as f64 * mean / found.bytes().max(1) as f64;
        let part = Self::part(share, mean * WINDOW_RECORDS, seed);
        let reach = (READ_ON / seconds_to_read(found)).clamp(share.min(1.0), 1.0);
        Ok(part.map(|part| part.reaching(reach)))
    }
}

/// An estimate of the time in which one core reads the files without random access. It was measured on two
/// shared cores in November 2026, with the programs that are named like the compressions.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn seconds_to_read(found: &FoundFiles) -> f64 {
    let through = found.files.iter().filter(|file| !Sample::spreads_over(file));
    let seconds = through.map(|file| {
        let megabytes_a_second = match (file.format.compression, file.format.container) {
            (Some(Compression::Gzip), _) | (None, Container::Parquet) => 50.0,
            (Some(Compression::Zstd), _) => 100.0,
            (Some(Compression::Xz), _) => 20.0,
            (Some(Compression::Bzip2), _) => 10.0,
            (None, _) => 200.0,
        };
        let repeat = found.sources[file.source].repeat.get();
        file.size as f64 * repeat as f64 / (megabytes_a_second * 1e6)
    });
    seconds.sum()
}

/// The mean bytes of a record, estimated from some records of some files.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn mean_record(found: &FoundFiles, seed: u64, control: &Control) -> Result<f64> {
    let (mut bytes, mut records) = (0.0, 0.0);
    let step = found.files.len().div_ceil(PILOTS).max(1);
    for file in found.files.iter().step_by(step) {
        // A large file counts for more than a small one, though the same amount is read of both.
        bytes += file.size as f64;
        records += file.size as f64 * records_per_byte(found, file, seed, control)?;
    }
    // Without an estimate, all records are read.
    Ok(if records > 0.0 { bytes / records } else { f64::INFINITY })
}

/// The records of a file for each byte, estimated from some of them.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn records_per_byte(
    found: &FoundFiles,
    file: &SourceFile,
    seed: u64,
    control: &Control,
) -> Result<f64> {
    if let Some(count) = known_count(file, control)? {
        return Ok(count as f64 / file.size.max(1) as f64);
    }
    let source = Source { repeat: NonZeroU64::MIN, ..found.sources[file.source].clone() };
    let alone = SourceFile { source: 0, ..file.clone() };
    let alone = FoundFiles { sources: vec![source], files: vec![alone], ..FoundFiles::default() };
    let size = file.size.max(1) as f64;
    let pilot = if Sample::spreads_over(file) {
        let (count, window) = PILOT;
        Sample::part(count * window / size, window, seed)
    } else if ZstdFrames::may_be_of(file) {
        // Of a smaller file nearly all is read.
        let part = (PILOT_FRAMES / size).min(0.99);
        Sample::part(part, PILOT.1, seed).map(|pilot| pilot.reaching(part))
    } else {
        None
    };
    let mut blocks: Box<dyn InputBlocks> = match &pilot {
        Some(pilot) => Box::new(SampledBlocks::new(alone, pilot.clone(), control)?),
        None => Box::new(Blocks::new(alone)),
    };
    let (mut bytes, mut records, mut looked_at) = (0, 0, 0);
    while let Some(block) = blocks.next_block(control)? {
        records += block.records().count();
        bytes += block.size;
        looked_at += 1;
        if pilot.is_none() && looked_at >= PILOT_STRETCH.0 && bytes >= PILOT_STRETCH.1 {
            break;
        }
    }
    let bytes = pilot.map_or(bytes, |pilot| pilot.bytes());
    Ok(records as f64 / bytes.max(1) as f64)
}
