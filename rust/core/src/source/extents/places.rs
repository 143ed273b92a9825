//! [`ExtentPlace`]: where an extent of a file begins and ends, and [`places`], those of a file.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::frame_lines::FrameExtent;
use super::line_extent::{beginning, line_behind, records_of_lines, text_of};
use super::zstd_frames::ZstdFrames;
use crate::error::{Error, Result};
use crate::source::block::{Block, BlockReader};
use crate::source::discovery::found::{FilePart, SourceFile};
use crate::source::discovery::index::FactIndex;
use crate::source::formats::format::Container;
use crate::source::formats::ipc;
use crate::source::formats::ipc::BatchPlace;
use crate::source::formats::mds::MdsHead;
use crate::source::formats::parquet;
use crate::source::sizes::BLOCK_BYTES;
use crate::storage::OpenFile;
use crate::util::control::Control;

/// The most cuts of a file whose places are read at once, in some hundredths of a second. Of more extents, lanes
/// get so many that their sizes even out, and the lines that begin in an extent are found when it is entered.
const MOST_CUTS: u64 = 2048;

/// The place of an extent in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExtentPlace {
    /// All files of a source with a limit, up to the limit.
    Source,
    /// The whole file.
    File,
    /// Whole lines, and the number of the first if lines are counted.
    Lines { range: Range<u64>, first_line: Option<u64> },
    /// The lines that begin in a range.
    Near(Range<u64>),
    /// The lines that begin in some zstd frames, and the number or identity of the first.
    Frames { range: Range<u64>, first_line: u64, indexed: bool, largest: u64 },
    /// A row group of a Parquet file, and the number of its first row.
    Group { number: usize, first_row: u64 },
    /// Some records of an MDS shard. They are found in its head at once, so no folder keeps them.
    #[serde(skip)]
    Records { head: Arc<MdsHead>, records: Range<usize> },
    /// A record batch of an Arrow file, and the number of its first row.
    Batch { batch: BatchPlace, first_row: u64 },
}

impl ExtentPlace {
    /// The place in few words. Of a shard they tell where the records lie, not the offsets of all others.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Records { head, records } => {
                format!("Records {records:?} {:?}", head.bytes(records))
            }
            other => format!("{other:?}"),
        }
    }
}

/// The numbering of records and lines.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ExtentNumbering {
    /// True if lines are counted. Otherwise a line is identified by the offset at which it begins, or by its frame
    /// (`number_line` finds its number).
    pub(crate) lines: bool,
    /// True if the records of each file are counted.
    pub(crate) records: bool,
}

/// The place of an extent, with its bytes and the number of its first record.
#[derive(Serialize, Deserialize)]
pub(crate) struct PlacedExtent {
    pub(crate) bytes: u64,
    pub(crate) first_record: u64,
    pub(crate) decoded: u64,
    pub(crate) place: ExtentPlace,
}

/// The extents of the part of one file. Places that take time to find are kept in the index.
pub(crate) fn places(
    file: &SourceFile,
    part: &FilePart,
    most: u64,
    numbering: ExtentNumbering,
    index: FactIndex<'_>,
    control: &Control,
) -> Result<Vec<PlacedExtent>> {
    let whole = || {
        vec![PlacedExtent {
            bytes: file.size,
            first_record: 0,
            decoded: 0,
            place: ExtentPlace::File,
        }]
    };
    let fact = ("places", part, most, numbering);
    if is_line_file(file)? {
        let lines = || places_of_lines(file, part, most, numbering, control);
        let is_read = numbering.lines || numbering.records;
        return if is_read { index.kept(file, &fact, lines) } else { lines() };
    }
    if file.format.container == Container::Parquet
        && let Some(groups) = parquet::groups(file)
    {
        let all: u64 = groups.iter().map(|group| group.bytes).sum();
        let placed = (0..).zip(&groups).map(|(number, group)| {
            // The extent counts its share of the file's size, whatever size the groups state.
            let share = u128::from(file.size) * u128::from(group.bytes) / u128::from(all.max(1));
            let bytes = u64::try_from(share).unwrap_or(file.size);
            let place = move |first_row| ExtentPlace::Group { number, first_row };
            (group.rows, bytes, group.bytes, place)
        });
        return Ok(if groups.is_empty() { whole() } else { places_of_rows(part, placed) });
    }
    if file.format.container == Container::Arrow
        && let Some(batches) = ipc::batches(file)
    {
        let placed = batches.into_iter().map(|(batch, rows)| {
            let place = move |first_row| ExtentPlace::Batch { batch, first_row };
            (rows, batch.bytes(), batch.bytes(), place)
        });
        return Ok(places_of_rows(part, placed));
    }
    if file.format.container == Container::Mds
        && let Some(head) = MdsHead::of(file, control)?
    {
        let head = Arc::new(head);
        let placed = head.stretches(most).into_iter().map(|records| {
            let (rows, range) = (records.len() as u64, head.bytes(&records));
            let place = |_| ExtentPlace::Records { head: Arc::clone(&head), records };
            (rows, range.end - range.start, 0, place)
        });
        return Ok(places_of_rows(part, placed));
    }
    if !ZstdFrames::may_be_of(file) {
        return Ok(whole());
    }
    index.kept(file, &fact, || {
        Ok(match ZstdFrames::of(file, control)? {
            Some(frames) => places_of_frames(file, &frames, part, most, numbering, control)?,
            None => whole(),
        })
    })
}

/// The extents of the part of a file of zstd frames: some neighbouring frames each.
fn places_of_frames(
    file: &SourceFile,
    ZstdFrames { frames, indexed }: &ZstdFrames,
    part: &FilePart,
    most: u64,
    numbering: ExtentNumbering,
    control: &Control,
) -> Result<Vec<PlacedExtent>> {
    let counts_records = numbering.records || part.records != (0..u64::MAX);
    let (mut line, mut first_record) = (1, 0);
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(first) = frames.get(at) {
        control.tick()?;
        let start = first.range.start;
        let more = frames[at + 1..].iter().take_while(|next| next.range.end - start <= most);
        let end = at + 1 + more.count();
        let range = start..frames[end - 1].range.end;
        let first_line = if numbering.lines { line } else { ZstdFrames::first_line(at) };
        let mut records = 0;
        if numbering.lines || counts_records {
            let mut lines = FrameExtent::open(file, range.clone(), line, *indexed);
            while let Some(content) = lines.next_content(control)? {
                let block = Block::new(&file.path, 0, 0, 0, content);
                records += block.records().count() as u64;
            }
            line = lines.next_line()?;
        }
        let behind = first_record + records;
        let is_wanted = part.records.start < behind && first_record < part.records.end;
        if is_wanted || !counts_records {
            let largest = frames[at..end].iter().map(|frame| frame.decoded).max().unwrap_or(0);
            let bytes = range.end - range.start;
            let place = ExtentPlace::Frames { range, first_line, indexed: *indexed, largest };
            places.push(PlacedExtent { bytes, first_record, decoded: 0, place });
        }
        (first_record, at) = (behind, end);
    }
    Ok(places)
}

/// The extents of the wanted rows of a table. Of each extent are given its rows, its bytes in the file and in memory, and
/// the place that it has with the number of its first row.
fn places_of_rows<P: FnOnce(u64) -> ExtentPlace>(
    part: &FilePart,
    extents: impl Iterator<Item = (u64, u64, u64, P)>,
) -> Vec<PlacedExtent> {
    let mut first_record = 0_u64;
    let mut places = Vec::new();
    for (rows, bytes, decoded, place) in extents {
        let end = first_record.saturating_add(rows);
        if part.records.start < end && first_record < part.records.end {
            places.push(PlacedExtent {
                bytes,
                first_record,
                decoded,
                place: place(first_record + 1),
            });
        }
        first_record = end;
    }
    places
}

/// The extents of the part of a line file.
fn places_of_lines(
    file: &SourceFile,
    part: &FilePart,
    most: u64,
    numbering: ExtentNumbering,
    control: &Control,
) -> Result<Vec<PlacedExtent>> {
    let is_numbered = numbering.lines || numbering.records;
    let is_whole = part.bytes == (0..file.size);
    if !is_numbered && is_whole && file.size.div_ceil(most.max(1)) > MOST_CUTS {
        let near = stretches(0..file.size, most);
        return Ok(near
            .map(|range| PlacedExtent {
                bytes: range.end - range.start,
                first_record: 0,
                decoded: 0,
                place: ExtentPlace::Near(range),
            })
            .collect());
    }
    let ranges = cut(file, &part.bytes, most, control)?;
    let mut line = 1;
    let mut counter = None;
    if numbering.lines {
        let opened = file.location.open_range(0..part.bytes.end).map_err(Error::io(&*file.path))?;
        let opened = counter.insert(opened);
        line += newlines(opened, part.bytes.start, &file.path, control)?;
    }
    let mut record = part.records.start;
    let mut places = Vec::with_capacity(ranges.len());
    for range in ranges {
        let (bytes, first_record) = (range.end - range.start, record);
        let first_line = counter.is_some().then_some(line);
        if let Some(opened) = &mut counter {
            line += newlines(opened, bytes, &file.path, control)?;
        }
        if numbering.records {
            record += records_of_lines(file, range.clone(), control)?;
        }
        places.push(PlacedExtent {
            bytes,
            first_record,
            decoded: 0,
            place: ExtentPlace::Lines { range, first_line },
        });
    }
    Ok(places)
}

/// True if a file consists of uncompressed lines, so that reading can start at any line.
pub(crate) fn is_line_file(file: &SourceFile) -> Result<bool> {
    let format = file.format;
    match (format.container, format.compression) {
        (Container::Lines, None) => Ok(true),
        (Container::Json, None) => Ok(!text_of(&beginning(&file.location)?).starts_with(b"[")),
        _ => Ok(false),
    }
}

/// Parts of a range, of at most about `most` bytes each.
fn stretches(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let size = range.end - range.start;
    equal_parts(range, size.div_ceil(most.max(1)).max(1))
}

/// As many parts of a range as `count`, of equal size but for one.
pub(in crate::source) fn equal_parts(
    range: Range<u64>,
    count: u64,
) -> impl Iterator<Item = Range<u64>> {
    let size = range.end - range.start;
    let end = move |number: u64| {
        let end = u128::from(size) * u128::from(number) / u128::from(count);
        range.start + u64::try_from(end).expect("at most the size")
    };
    (0..count).map(move |number| end(number)..end(number + 1))
}

/// Parts of a range of whole lines, of at most about `most` bytes. Each but the last ends after a newline.
fn cut(
    source: &SourceFile,
    range: &Range<u64>,
    most: u64,
    control: &Control,
) -> Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let mut start = range.start;
    if range.end - range.start > most {
        let starts = || stretches(range.clone(), most).map(|range| range.start);
        let places = starts().map(|near| near.saturating_sub(1));
        let mut file = source.location.open_scattered(places).map_err(Error::io(&*source.path))?;
        for near in starts() {
            control.tick()?;
            if near <= start {
                continue;
            }
            let end = line_behind(&mut file, near, &source.path, control)?;
            let Some(end) = end.filter(|end| *end < range.end) else { break };
            ranges.push(start..end);
            start = end;
        }
    }
    ranges.push(start..range.end);
    Ok(ranges)
}

/// The newlines in the next `bytes` bytes of a file.
fn newlines(file: &mut OpenFile, bytes: u64, path: &Path, control: &Control) -> Result<u64> {
    let mut left = bytes;
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut count = 0;
    while left > 0 {
        control.tick()?;
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = file.read(&mut buffer[..wanted]).map_err(Error::io(path))?;
        if read == 0 {
            break;
        }
        count += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
        left -= read as u64;
    }
    Ok(count)
}

/// The number of the line that begins at offset `byte` of a file, from 1.
pub(crate) fn line_of(source: &SourceFile, byte: u64, control: &Control) -> Result<u64> {
    let path = &source.path;
    let mut file = source.location.open_range(0..byte).map_err(Error::io(&**path))?;
    Ok(1 + newlines(&mut file, byte, path, control)?)
}
