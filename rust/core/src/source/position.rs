//! [`Extent`]: a stretch of the input with random access to its start, and [`ExtentBlocks`], its blocks.
//!
//! Uncompressed line files are cut into extents at newlines. An extent of a Parquet file is a row group. Any
//! other file is one extent, which is read from its beginning.

use std::io::{Read, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::block::{Block, Content, Reader, is_index_line};
use super::blocks::Blocks;
use super::format::Container;
use super::found::{Found, SourceFile};
use super::parquet;
use super::sizes::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD, PEEKED};
use crate::control::Control;
use crate::error::{Error, Origin, Result};
use crate::ledger::Reason;
use crate::storage::{Location, OpenFile};

/// Bytes that are read at a time to find the newline for a cut: a page.
const STEP: usize = 4 << 10;

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
}

/// The extents of `files`. Files that can be cut have extents of about `most` bytes.
///
/// With `counted`, line files are read to count lines. Without it, a line is identified by the offset at
/// which it begins ([`line_of`] finds its number).
pub(crate) fn extents(
    found: &Found,
    files: &[usize],
    most: u64,
    counted: bool,
    control: &Control,
) -> Result<Vec<Extent>> {
    let mut all = Vec::new();
    for &file in files {
        control.tick()?;
        let source = &found.files[file];
        let limited = found.sources[source.source].limit.is_some();
        let places = if limited {
            vec![(found.bytes_of_source(source.source), Place::Source)]
        } else {
            places(source, most, counted, control)?
        };
        all.extend((0..).zip(places).map(|(number, (bytes, place))| Extent {
            file,
            number,
            bytes,
            place,
        }));
    }
    Ok(all)
}

/// The extents of one file, with the bytes of each.
fn places(
    file: &SourceFile,
    most: u64,
    counted: bool,
    control: &Control,
) -> Result<Vec<(u64, Place)>> {
    let whole = || vec![(file.size, Place::File)];
    if is_line_file(file)? {
        if !counted && file.size.div_ceil(most.max(1)) > MOST_CUTS {
            return Ok(stretches(file.size, most)
                .map(|range| (range.end - range.start, Place::Near(range)))
                .collect());
        }
        let ranges = cut(file, most, control)?;
        let mut opened = None;
        let mut line = 1;
        let mut places = Vec::with_capacity(ranges.len());
        for range in ranges {
            let bytes = range.end - range.start;
            let first_line = counted.then_some(line);
            if counted {
                let opened = match &mut opened {
                    Some(opened) => opened,
                    none => none.insert(file.location.open().map_err(Error::io(&*file.path))?),
                };
                line += newlines(opened, bytes, &file.path, control)?;
            }
            places.push((bytes, Place::Lines { range, first_line }));
        }
        return Ok(places);
    }
    if file.format.container == Container::Parquet
        && let Some(groups) = parquet::groups(file)
    {
        let all: u64 = groups.iter().map(|group| group.bytes).sum();
        let mut first_row = 1;
        let mut places = Vec::with_capacity(groups.len());
        for (number, group) in groups.iter().enumerate() {
            // The extent counts its share of the file's size, whatever size the groups state.
            let part = u128::from(file.size) * u128::from(group.bytes) / u128::from(all.max(1));
            let bytes = u64::try_from(part).unwrap_or(file.size);
            places.push((bytes, Place::Group { number, first_row }));
            first_row += group.rows;
        }
        return Ok(if places.is_empty() { whole() } else { places });
    }
    Ok(whole())
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

/// Whether an index line stands before each record.
fn is_indexed(location: &Location) -> Result<bool> {
    let start = beginning(location)?;
    Ok(text_of(&start).split(|byte| *byte == b'\n').next().is_some_and(is_index_line))
}

fn beginning(location: &Location) -> Result<bytes::Bytes> {
    location.start(PEEKED).map_err(Error::io(&**location.name()))
}

fn text_of(start: &[u8]) -> &[u8] {
    start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start()
}

/// Ranges of a file of `size` bytes, of at most about `most` bytes each.
fn stretches(size: u64, most: u64) -> impl Iterator<Item = Range<u64>> {
    let count = size.div_ceil(most.max(1)).max(1);
    let end = move |number: u64| {
        let end = u128::from(size) * u128::from(number) / u128::from(count);
        u64::try_from(end).expect("at most the size")
    };
    (0..count).map(move |number| end(number)..end(number + 1))
}

/// Ranges of a file of at most about `most` bytes. Each but the last ends after a newline.
fn cut(source: &SourceFile, most: u64, control: &Control) -> Result<Vec<Range<u64>>> {
    let size = source.size;
    let mut ranges = Vec::new();
    let mut start = 0;
    if size > most {
        let starts = || stretches(size, most).map(|range| range.start);
        let places = starts().map(|near| near.saturating_sub(1));
        let mut file = source.location.open_scattered(places).map_err(Error::io(&*source.path))?;
        for near in starts() {
            control.tick()?;
            if near <= start {
                continue;
            }
            let end = line_behind(&mut file, near, &source.path, control)?;
            let Some(end) = end.filter(|end| *end < size) else { break };
            ranges.push(start..end);
            start = end;
        }
    }
    ranges.push(start..size);
    Ok(ranges)
}

/// The start of the first line at or after `near`; `None` if there is none.
fn line_behind(
    file: &mut OpenFile,
    near: u64,
    path: &Path,
    control: &Control,
) -> Result<Option<u64>> {
    let mut at = near - 1;
    let mut bytes = vec![0; STEP];
    file.seek(SeekFrom::Start(at)).map_err(Error::io(path))?;
    loop {
        control.tick()?;
        let read = file.read(&mut bytes).map_err(Error::io(path))?;
        if read == 0 {
            return Ok(None);
        }
        if let Some(newline) = memchr::memchr(b'\n', &bytes[..read]) {
            return Ok(Some(at + newline as u64 + 1));
        }
        at += read as u64;
        bytes.resize((2 * bytes.len()).min(BLOCK_BYTES), 0);
    }
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
        found: &Found,
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
                let left = reader.end - reader.at;
                let reading = Reading::Stretch(Box::new(reader));
                return Ok(Self { reading, file: extent.file, source: file.source, entered, left });
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
fn blocks_of<'a>(
    found: &Found,
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
    Blocks::new(Found { sources: vec![source], files, passed_over: Vec::new() })
}

/// The first blocks of a file, from its beginning.
pub(crate) fn first_blocks(found: &Found, file: usize) -> ExtentBlocks {
    let found_file = &found.files[file];
    let mut source = found.sources[found_file.source].clone();
    (source.repeat, source.limit) = (NonZeroU64::MIN, None);
    let files = vec![SourceFile { source: 0, ..found_file.clone() }];
    let alone = Found { sources: vec![source], files, passed_over: Vec::new() };
    ExtentBlocks {
        reading: Reading::Files(Box::new(Blocks::new(alone))),
        file,
        source: found_file.source,
        entered: None,
        left: found_file.size,
    }
}

/// Replaces the offset of a record by the number of its line.
pub(crate) fn number_line(found: &Found, origin: &mut Origin, control: &Control) -> Result<()> {
    let file = found.files.iter().find(|file| file.path == origin.path);
    if let Some(file) = file
        && found.sources[file.source].limit.is_none()
        && is_line_file(file)?
    {
        origin.line = line_of(file, origin.line, control)?;
    }
    Ok(())
}

/// The lines in a range of a file.
struct LineExtent {
    path: Arc<Path>,
    file: OpenFile,
    at: u64,
    end: u64,
    /// The number of the next line, if lines are counted.
    line: Option<u64>,
    indexed: bool,
    /// Bytes of the last content.
    taken: u64,
}

impl LineExtent {
    fn open(location: &Location, range: Range<u64>, line: Option<u64>) -> Result<Self> {
        let indexed = is_indexed(location)?;
        let path = location.name();
        let mut file = location.open_range(range.clone()).map_err(Error::io(&**path))?;
        file.seek(SeekFrom::Start(range.start)).map_err(Error::io(&**path))?;
        let (path, at, end) = (Arc::clone(path), range.start, range.end);
        Ok(Self { path, file, at, end, line, indexed, taken: 0 })
    }

    /// The lines that begin in a range, identified by the offset at which they begin.
    fn near(file: &SourceFile, range: Range<u64>, control: &Control) -> Result<Self> {
        let path = &file.path;
        let places = [range.start, range.end].into_iter().map(|near| near.saturating_sub(1));
        let mut opened = file.location.open_scattered(places).map_err(Error::io(&**path))?;
        let mut line_at = |near: u64| -> Result<u64> {
            if near == 0 || near >= file.size {
                return Ok(near);
            }
            let line = line_behind(&mut opened, near, path, control)?;
            Ok(line.unwrap_or(file.size).min(file.size))
        };
        let range = line_at(range.start)?..line_at(range.end)?;
        Self::open(&file.location, range, None)
    }

    /// Reads whole lines of about a block, or one line that is longer.
    fn read_lines(&mut self, control: &Control) -> Result<std::result::Result<Vec<u8>, u64>> {
        let mut bytes = Vec::new();
        loop {
            control.tick()?;
            let left = self.end - self.at - bytes.len() as u64;
            let before = bytes.len();
            let wanted = left.min(BLOCK_BYTES.max(before) as u64);
            let read = self.file.by_ref().take(wanted).read_to_end(&mut bytes);
            if read.map_err(Error::io(&*self.path))? as u64 != wanted {
                return Err(Error::Changed(self.path.to_path_buf()));
            }
            if wanted == left {
                return Ok(Ok(bytes));
            }
            if let Some(newline) = memchr::memrchr(b'\n', &bytes[before..]) {
                bytes.truncate(before + newline + 1);
                let next = SeekFrom::Start(self.at + bytes.len() as u64);
                self.file.seek(next).map_err(Error::io(&*self.path))?;
                return Ok(Ok(bytes));
            }
            if bytes.len() > LONGEST_RECORD {
                // The bytes after the first newline are read. The extent ends with a newline, so there is
                // one.
                let at = self.at + bytes.len() as u64;
                let next = line_behind(&mut self.file, at, &self.path, control)?;
                return Ok(Err(next.unwrap_or(self.end).min(self.end)));
            }
        }
    }
}

impl Reader for LineExtent {
    fn next_content(&mut self, control: &Control) -> Result<Option<Content>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        let bytes = match self.read_lines(control)? {
            Ok(bytes) => bytes,
            Err(next) => {
                let line = self.line.unwrap_or(start);
                (self.at, self.taken) = (next, next - start);
                self.line = self.line.map(|line| line + 1);
                self.file.seek(SeekFrom::Start(next)).map_err(Error::io(&*self.path))?;
                return Ok(Some(Content::Refused {
                    line,
                    reason: Reason::LineTooLong,
                    message: format!("a line of more than {LONGEST_RECORD} bytes"),
                }));
            }
        };
        (self.at, self.taken) = (start + bytes.len() as u64, bytes.len() as u64);
        let mut places = Vec::new();
        let mut from = if start == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        let ends = memchr::memchr_iter(b'\n', &bytes)
            .chain((!bytes.ends_with(b"\n")).then_some(bytes.len()));
        for end in ends {
            let text = &bytes[from..end];
            let line = self.line.unwrap_or(start + from as u64);
            let passed_over = text.trim_ascii().is_empty() || self.indexed && is_index_line(text);
            if !passed_over {
                places.push((line, from..end));
            }
            from = end + 1;
            self.line = self.line.map(|line| line + 1);
        }
        Ok(Some(Content::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.taken
    }
}
