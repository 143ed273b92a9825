//! [`Extent`]: a stretch of the input with random access to its start, and [`ExtentBlocks`], its blocks.
//!
//! Uncompressed line files are cut into extents at newlines. An extent of a Parquet file is a row group, one of an
//! Arrow file a record batch. Any other file is one extent, which is read from its beginning.

use std::io::Read;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;

use super::block::{Block, Content, Reader};
use super::blocks::Blocks;
use super::format::Container;
use super::found::{FoundFiles, Part, SourceFile};
use super::ipc::{self, BatchPlace};
use super::line_extent::{LineExtent, beginning, line_behind, records_of_lines, text_of};
use super::parquet;
use super::sizes::BLOCK_BYTES;
use crate::control::Control;
use crate::error::{Error, Origin, Result};
use crate::storage::OpenFile;

/// The most cuts of a file whose places are read at once, in some hundredths of a second. Of more extents, lanes
/// get so many that their sizes even out, and the lines that begin in an extent are found when it is entered.
const MOST_CUTS: u64 = 2048;

/// A stretch of the input that can be read without reading what is before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The index of the file among those that were found. For a source that is read as a whole, its first
    /// file.
    pub(crate) file: usize,
    /// Its number among the extents of the file.
    pub(crate) number: u32,
    /// Its bytes of the file.
    pub(crate) bytes: u64,
    /// The number of its first record in the file, from 0, if records are numbered.
    pub(crate) first_record: u64,
    /// Bytes of a row group or batch in memory, which are taken while the extent is read; 0 for other extents, which are
    /// read in blocks.
    pub(crate) decoded: u64,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// All files of a source with a limit, up to the limit.
    Source,
    /// The whole file.
    File,
    /// Whole lines, and the number of the first if lines are counted.
    Lines { range: Range<u64>, first_line: Option<u64> },
    /// The lines that begin in a range.
    Near(Range<u64>),
    /// A row group of a Parquet file, and the number of its first row.
    Group { number: usize, first_row: u64 },
    /// A record batch of an Arrow file, and the number of its first row.
    Batch { batch: BatchPlace, first_row: u64 },
}

/// The numbering of records and lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    /// Whether lines are counted. Otherwise a line is identified by the offset at which it begins ([`line_of`] finds
    /// its number).
    pub(crate) lines: bool,
    /// Whether the records of each file are counted.
    pub(crate) records: bool,
}

/// The extents of the parts of `files`. Files that can be cut have extents of about `most` bytes.
///
/// With a `numbering` of lines or records, line files are read to count them.
pub(crate) fn extents(
    found: &FoundFiles,
    files: &[usize],
    parts: &[Part],
    most: u64,
    numbering: Numbering,
    control: &Control,
) -> Result<Vec<Extent>> {
    let mut all = Vec::new();
    for &file in files {
        control.tick()?;
        let source = &found.files[file];
        let limited = found.sources[source.source].limit.is_some();
        let places = if limited {
            vec![Placed {
                bytes: found.bytes_of_source(source.source),
                first_record: 0,
                decoded: 0,
                place: Place::Source,
            }]
        } else {
            places(source, &parts[file], most, numbering, control)?
        };
        all.extend((0..).zip(places).map(|(number, placed)| {
            let Placed { bytes, first_record, decoded, place } = placed;
            Extent { file, number, bytes, first_record, decoded, place }
        }));
    }
    Ok(all)
}

/// The place of an extent, with its bytes and the number of its first record.
struct Placed {
    bytes: u64,
    first_record: u64,
    decoded: u64,
    place: Place,
}

/// The extents of the part of one file.
fn places(
    file: &SourceFile,
    part: &Part,
    most: u64,
    numbering: Numbering,
    control: &Control,
) -> Result<Vec<Placed>> {
    let whole =
        || vec![Placed { bytes: file.size, first_record: 0, decoded: 0, place: Place::File }];
    if is_line_file(file)? {
        return places_of_lines(file, part, most, numbering, control);
    }
    if file.format.container == Container::Parquet
        && let Some(groups) = parquet::groups(file)
    {
        let all: u64 = groups.iter().map(|group| group.bytes).sum();
        let placed = (0..).zip(&groups).map(|(number, group)| {
            // The extent counts its share of the file's size, whatever size the groups state.
            let share = u128::from(file.size) * u128::from(group.bytes) / u128::from(all.max(1));
            let bytes = u64::try_from(share).unwrap_or(file.size);
            let place = move |first_row| Place::Group { number, first_row };
            (group.rows, bytes, group.bytes, place)
        });
        return Ok(if groups.is_empty() { whole() } else { places_of_rows(part, placed) });
    }
    if file.format.container == Container::Arrow
        && let Some(batches) = ipc::batches(file)
    {
        let placed = batches.into_iter().map(|(batch, rows)| {
            let place = move |first_row| Place::Batch { batch, first_row };
            (rows, batch.bytes(), batch.bytes(), place)
        });
        return Ok(places_of_rows(part, placed));
    }
    Ok(whole())
}

/// The extents of the wanted rows of a table. Of each extent are given its rows, its bytes in the file and in memory, and
/// the place that it has with the number of its first row.
fn places_of_rows<P: FnOnce(u64) -> Place>(
    part: &Part,
    extents: impl Iterator<Item = (u64, u64, u64, P)>,
) -> Vec<Placed> {
    let mut first_record = 0_u64;
    let mut places = Vec::new();
    for (rows, bytes, decoded, place) in extents {
        let end = first_record.saturating_add(rows);
        if part.records.start < end && first_record < part.records.end {
            places.push(Placed { bytes, first_record, decoded, place: place(first_record + 1) });
        }
        first_record = end;
    }
    places
}

/// The extents of the part of a line file.
fn places_of_lines(
    file: &SourceFile,
    part: &Part,
    most: u64,
    numbering: Numbering,
    control: &Control,
) -> Result<Vec<Placed>> {
    let is_numbered = numbering.lines || numbering.records;
    let is_whole = part.bytes == (0..file.size);
    if !is_numbered && is_whole && file.size.div_ceil(most.max(1)) > MOST_CUTS {
        let near = stretches(0..file.size, most);
        return Ok(near
            .map(|range| Placed {
                bytes: range.end - range.start,
                first_record: 0,
                decoded: 0,
                place: Place::Near(range),
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
        places.push(Placed {
            bytes,
            first_record,
            decoded: 0,
            place: Place::Lines { range, first_line },
        });
    }
    Ok(places)
}

/// Whether a file consists of uncompressed lines, so that reading can start at any line.
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
    let count = size.div_ceil(most.max(1)).max(1);
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

/// The blocks of an extent, in order.
pub(crate) struct ExtentBlocks {
    reading: Reading,
    file: usize,
    source: usize,
    /// The file, for a check at the end that it has not changed; `None` where [`Blocks`] checks.
    entered: Option<SourceFile>,
    /// Bytes of the extent after the blocks so far.
    left: u64,
}

enum Reading {
    Files(Box<Blocks>),
    Stretch(Box<dyn Reader>),
    Ended,
}

impl ExtentBlocks {
    /// Opens an extent. Of a table, the named columns are read, or all.
    pub(crate) fn enter(
        found: &FoundFiles,
        extent: &Extent,
        columns: Option<&[String]>,
        control: &Control,
    ) -> Result<Self> {
        let file = &found.files[extent.file];
        let entered = Some(file.clone());
        let (reading, entered) = match &extent.place {
            Place::Source => {
                let files = found.files.iter().filter(|it| it.source == file.source);
                (Reading::Files(Box::new(blocks_of(found, files, true))), None)
            }
            Place::File => (Reading::Files(Box::new(blocks_of(found, [file], false))), None),
            Place::Lines { range, first_line } => {
                file.unchanged()?;
                let reader = LineExtent::open(&file.location, range.clone(), *first_line)?;
                (Reading::Stretch(Box::new(reader)), entered)
            }
            Place::Near(range) => {
                file.unchanged()?;
                let reader = LineExtent::near(file, range.clone(), control)?;
                let left = reader.left();
                let reading = Reading::Stretch(Box::new(reader));
                return Ok(Self { reading, file: extent.file, source: file.source, entered, left });
            }
            Place::Batch { batch, first_row } => {
                file.unchanged()?;
                let reader = ipc::open_batch(file, *batch, *first_row, columns)?;
                (Reading::Stretch(reader), entered)
            }
            Place::Group { number, first_row } => {
                file.unchanged()?;
                let reader = parquet::open_group(file, *number, *first_row, columns)?;
                (Reading::Stretch(reader), entered)
            }
        };
        Ok(Self { reading, file: extent.file, source: file.source, entered, left: extent.bytes })
    }

    /// The next block; `None` after the last.
    pub(crate) fn next_block(&mut self, control: &Control) -> Result<Option<Block>> {
        let block = match &mut self.reading {
            Reading::Ended => return Ok(None),
            Reading::Files(blocks) => blocks.next_block(control)?.map(|mut block| {
                block.file += self.file;
                block.source = self.source;
                block
            }),
            Reading::Stretch(reader) => {
                let file = self.entered.as_ref().expect("a stretch is of a file");
                reader.next_content(control)?.map(|content| {
                    let size = reader.position().min(self.left);
                    Block::new(&file.path, self.file, self.source, size, content)
                })
            }
        };
        if let Some(block) = &block {
            self.left = self.left.saturating_sub(block.size);
            if let (Content::Broken { .. }, Some(file)) = (&block.content, &self.entered) {
                file.unchanged()?;
            }
        } else {
            self.reading = Reading::Ended;
            if let Some(file) = &self.entered {
                file.unchanged()?;
            }
        }
        Ok(block)
    }
}

/// The blocks of files of one source, read once.
pub(super) fn blocks_of<'a>(
    found: &FoundFiles,
    files: impl IntoIterator<Item = &'a SourceFile>,
    limited: bool,
) -> Blocks {
    let files: Vec<SourceFile> =
        files.into_iter().map(|file| SourceFile { source: 0, ..file.clone() }).collect();
    let sources =
        found.files.iter().find(|file| files.first().is_some_and(|it| it.path == file.path));
    let source = sources.map_or(0, |file| file.source);
    let mut source = found.sources[source].clone();
    source.repeat = NonZeroU64::MIN;
    if !limited {
        source.limit = None;
    }
    Blocks::new(FoundFiles { sources: vec![source], files, passed_over: Vec::new() })
}

/// The first blocks of a file, from its beginning.
pub(crate) fn first_blocks(found: &FoundFiles, file: usize) -> ExtentBlocks {
    let found_file = &found.files[file];
    let mut source = found.sources[found_file.source].clone();
    (source.repeat, source.limit) = (NonZeroU64::MIN, None);
    let files = vec![SourceFile { source: 0, ..found_file.clone() }];
    let alone = FoundFiles { sources: vec![source], files, passed_over: Vec::new() };
    ExtentBlocks {
        reading: Reading::Files(Box::new(Blocks::new(alone))),
        file,
        source: found_file.source,
        entered: None,
        left: found_file.size,
    }
}

/// Replaces the offset of a record by the number of its line.
pub(crate) fn number_line(
    found: &FoundFiles,
    origin: &mut Origin,
    control: &Control,
) -> Result<()> {
    let file = found.files.iter().find(|file| file.path == origin.path);
    if let Some(file) = file
        && found.sources[file.source].limit.is_none()
        && is_line_file(file)?
    {
        origin.line = line_of(file, origin.line, control)?;
    }
    Ok(())
}
