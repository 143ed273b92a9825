//! [`parts`]: the parts of files that hold the records of some numbers.

use std::ops::Range;

use super::extent::{blocks_of, is_line_file};
use super::line_extent::LineExtent;
use crate::error::Result;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::discovery::found::{FilePart, FoundFiles, SourceFile};
use crate::source::discovery::index::FactIndex;
use crate::source::formats::format::Container;
use crate::source::formats::ipc;
use crate::source::formats::mds::MdsHead;
use crate::source::formats::parquet;
use crate::source::input_blocks::InputBlocks;
use crate::util::control::Control;

/// The parts of all files that hold the records with the numbers `wanted`, from 0, of `sources` read one after the other.
///
/// Records are counted as far as `wanted` needs: from the metadata of Parquet, Arrow and MDS files, otherwise by reading.
pub(crate) fn parts(
    found: &FoundFiles,
    sources: &[usize],
    wanted: &Range<u64>,
    index: FactIndex<'_>,
    control: &Control,
) -> Result<Vec<FilePart>> {
    let none = || FilePart { bytes: 0..0, records: 0..0 };
    let mut parts: Vec<FilePart> = found.files.iter().map(|_| none()).collect();
    let mut before = 0_u64;
    for &source in sources {
        let files = (0..).zip(&found.files).filter(|(_, file)| file.source == source);
        let limited = found.sources[source].limit.is_some();
        for (number, file) in files.take(if limited { 1 } else { usize::MAX }) {
            let is_endless = wanted.end == u64::MAX;
            let end = if is_endless { u64::MAX } else { wanted.end.saturating_sub(before) };
            let rest = wanted.start.saturating_sub(before)..end;
            if rest.is_empty() {
                return Ok(parts);
            }
            if !file.is_file() {
                parts[number] = FilePart { bytes: 0..0, records: rest };
                continue;
            }
            if rest == (0..u64::MAX) {
                parts[number] = FilePart::whole(file);
                continue;
            }
            let count = || counted(found, file, limited, &rest, control);
            let fact = ("records", &rest);
            let (bytes, count) = if limited { count()? } else { index.kept(file, &fact, count)? };
            parts[number] = FilePart { bytes, records: rest.start..rest.end.min(count) };
            before = before.saturating_add(count);
        }
    }
    Ok(parts)
}

/// The bytes of a file with the records `wanted`, and the number of all its records, or of those up to the last wanted.
fn counted(
    found: &FoundFiles,
    file: &SourceFile,
    limited: bool,
    wanted: &Range<u64>,
    control: &Control,
) -> Result<(Range<u64>, u64)> {
    if !limited && is_line_file(file)? {
        return counted_lines(file, wanted, control);
    }
    if !limited && let Some(count) = known_count(file, control)? {
        return Ok((0..file.size, count));
    }
    let files = found.files.iter().filter(|it| it.source == file.source && limited || *it == file);
    let mut blocks = blocks_of(found, files, limited);
    let mut count = 0;
    while count < wanted.end
        && let Some(block) = blocks.next_block(control)?
    {
        count += block.records().count() as u64;
        if wanted.end == u64::MAX && count > wanted.start {
            return Ok((0..file.size, u64::MAX));
        }
    }
    Ok((0..file.size, count))
}

/// The number of records of a file that tells it: a Parquet or Arrow file, or a shard of MDS.
pub(in crate::source) fn known_count(file: &SourceFile, control: &Control) -> Result<Option<u64>> {
    Ok(match file.format.container {
        Container::Parquet => {
            parquet::groups(file).map(|groups| groups.iter().map(|group| group.rows).sum())
        }
        Container::Arrow => {
            ipc::batches(file).map(|batches| batches.iter().map(|(_, rows)| rows).sum())
        }
        Container::Mds => MdsHead::of(file, control)?.map(|head| head.records() as u64),
        _ => None,
    })
}

/// [`counted`] for a line file: the lines of the records, without those before and after them.
fn counted_lines(
    file: &SourceFile,
    wanted: &Range<u64>,
    control: &Control,
) -> Result<(Range<u64>, u64)> {
    let mut reader = LineExtent::open(&file.location, 0..file.size, None)?;
    let mut start = (wanted.start == 0).then_some(0);
    let mut count = 0_u64;
    while let Some(content) = reader.next_content(control)? {
        let places: Vec<u64> = match content {
            BlockContent::Values { places, .. } => {
                places.into_iter().map(|(offset, _)| offset).collect()
            }
            BlockContent::Refused { line, .. } => vec![line],
            _ => Vec::new(),
        };
        let offset = |number: u64| {
            let at = usize::try_from(number.checked_sub(count)?).ok()?;
            places.get(at).copied()
        };
        start = start.or_else(|| offset(wanted.start));
        if let (Some(start), Some(end)) = (start, offset(wanted.end)) {
            return Ok((start..end, wanted.end));
        }
        if let (Some(start), u64::MAX) = (start, wanted.end) {
            return Ok((start..file.size, u64::MAX));
        }
        count += places.len() as u64;
    }
    Ok((start.unwrap_or(file.size)..file.size, count))
}
