//! [`LineExtent`]: the lines in a range of an uncompressed line file, without those before it.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::vec;

use super::line_file::LineFile;
use crate::error::{Error, Result};
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::discovery::found::SourceFile;
use crate::source::index_lines::is_index_line;
use crate::source::sizes::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD, PEEKED};
use crate::storage::{Location, OpenFile};
use crate::util::control::Control;

/// Bytes that are read at a time to find the newline for a cut: a page.
const STEP: usize = 4 << 10;

/// Bytes that are fetched behind a range of which the end of the last line is not known.
const LAST_LINE: u64 = 8 << 10;

/// The lines in a range of a file.
pub(crate) struct LineExtent {
    path: Arc<Path>,
    file: OpenFile,
    at: u64,
    end: u64,
    /// The number of the next line, if lines are counted.
    line: Option<u64>,
    indexed: bool,
    /// Bytes of the last content.
    taken: u64,
    /// Further ranges, whose lines are found when they are reached.
    later: vec::IntoIter<Range<u64>>,
    /// The end of the last range, at which the file ends if there are further ones.
    size: u64,
}

impl LineExtent {
    /// The lines of a range that begins and ends at lines. The first has the number `line`, if lines are counted.
    pub(crate) fn open(location: &Location, range: Range<u64>, line: Option<u64>) -> Result<Self> {
        Self::open_after(location, range, line, None)
    }

    /// [`open`](Self::open), by the file of an extent before if that is the same.
    pub(crate) fn open_after(
        location: &Location,
        range: Range<u64>,
        line: Option<u64>,
        before: Option<LineFile>,
    ) -> Result<Self> {
        let path = location.name();
        let same = before.filter(|before| before.path == *path);
        let (mut file, indexed) = if let Some(LineFile { file, indexed, .. }) = same {
            (file, indexed)
        } else {
            let opened = location.open_range(range.clone()).map_err(Error::io(&**path))?;
            (opened, is_indexed(location)?)
        };
        file.seek(SeekFrom::Start(range.start)).map_err(Error::io(&**path))?;
        let (path, at, end) = (Arc::clone(path), range.start, range.end);
        let later = Vec::new().into_iter();
        Ok(Self { path, file, at, end, line, indexed, taken: 0, later, size: end })
    }

    /// Bytes of the range that were not read yet.
    pub(crate) fn left(&self) -> u64 {
        self.end - self.at
    }

    /// The lines that begin in a range, identified by the offset at which they begin. The file of an extent before is read
    /// if that is the same.
    pub(crate) fn near(
        file: &SourceFile,
        range: Range<u64>,
        before: Option<LineFile>,
        control: &Control,
    ) -> Result<Self> {
        let path = &file.path;
        let mut before = before.filter(|before| before.path == *path);
        let places = [range.start, range.end].into_iter().map(|near| near.saturating_sub(1));
        let mut scattered = None;
        let opened = match &mut before {
            Some(before) => &mut before.file,
            None => {
                scattered.insert(file.location.open_scattered(places).map_err(Error::io(&**path))?)
            }
        };
        let range = lines_of(opened, &range, path, file.size, control)?;
        Self::open_after(&file.location, range, None, before)
    }

    /// The lines that begin in some ranges, one range after the other, identified by the offset at which they begin.
    pub(crate) fn near_each(file: &SourceFile, ranges: Vec<Range<u64>>) -> Result<Self> {
        let path = Arc::clone(&file.path);
        // From the end of the line before a range to that of its last line, which is mostly no longer than that.
        let lines = |it: &Range<u64>| it.start.saturating_sub(1)..it.end + LAST_LINE;
        let opened = file.location.open_stretches(ranges.iter().map(lines));
        let opened = opened.map_err(Error::io(&*path))?;
        let (indexed, later) = (is_indexed(&file.location)?, ranges.into_iter());
        let (at, end, line, taken, size) = (0, 0, None, 0, file.size);
        Ok(Self { path, file: opened, at, end, line, indexed, taken, later, size })
    }

    /// Goes to the next range with a line; false if there is none.
    fn next_range(&mut self, control: &Control) -> Result<bool> {
        while self.at >= self.end {
            let Some(range) = self.later.next() else { return Ok(false) };
            let range = lines_of(&mut self.file, &range, &self.path, self.size, control)?;
            (self.at, self.end) = (range.start, range.end);
            self.file.seek(SeekFrom::Start(self.at)).map_err(Error::io(&*self.path))?;
        }
        Ok(true)
    }

    /// Reads whole lines of about a block, or one line that is longer.
    fn read_lines(&mut self, control: &Control) -> Result<std::result::Result<Vec<u8>, u64>> {
        let mut bytes = Vec::new();
        loop {
            control.tick()?;
            let left = self.end - self.at - bytes.len() as u64;
            let before = bytes.len();
            let wanted = left.min(BLOCK_BYTES.max(before) as u64);
            let length = usize::try_from(wanted).expect("a block");
            bytes.resize(before + length, 0);
            self.file.read_exact(&mut bytes[before..]).map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => Error::Changed(self.path.to_path_buf()),
                _ => Error::io(&*self.path)(error),
            })?;
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

impl BlockReader for LineExtent {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        if !self.next_range(control)? {
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
                return Ok(Some(BlockContent::Refused {
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
        Ok(Some(BlockContent::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.taken
    }

    fn into_file(self: Box<Self>) -> Option<LineFile> {
        let Self { path, file, indexed, .. } = *self;
        // An object is fetched by the range that is to be read.
        matches!(file, OpenFile::Local(_)).then_some(LineFile { path, file, indexed })
    }
}

/// True if an index line stands before each record.
pub(crate) fn is_indexed(location: &Location) -> Result<bool> {
    let start = beginning(location)?;
    Ok(text_of(&start).split(|byte| *byte == b'\n').next().is_some_and(is_index_line))
}

/// The lines that begin in a range of a file.
fn lines_of(
    file: &mut OpenFile,
    range: &Range<u64>,
    path: &Path,
    size: u64,
    control: &Control,
) -> Result<Range<u64>> {
    let mut line_at = |near: u64| -> Result<u64> {
        if near == 0 || near >= size {
            return Ok(near);
        }
        Ok(line_behind(file, near, path, control)?.unwrap_or(size).min(size))
    };
    Ok(line_at(range.start)?..line_at(range.end)?)
}

/// The start of the first line at or after `near`; `None` if there is none.
pub(crate) fn line_behind(
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

/// The first bytes of a file.
pub(crate) fn beginning(location: &Location) -> Result<bytes::Bytes> {
    location.start(PEEKED).map_err(Error::io(&**location.name()))
}

/// The text of the first bytes, without a byte order mark and the white space before it.
pub(crate) fn text_of(start: &[u8]) -> &[u8] {
    start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start()
}

/// The records in a range of whole lines of a file.
pub(crate) fn records_of_lines(
    file: &SourceFile,
    range: Range<u64>,
    control: &Control,
) -> Result<u64> {
    let lines = range.end - range.start;
    let mut reader = LineExtent::open(&file.location, range, None)?;
    let mut count = 0;
    while let Some(content) = reader.next_content(control)? {
        count += match content {
            BlockContent::Values { places, .. } => places.len() as u64,
            _ => 1,
        };
    }
    debug_assert!(count <= lines, "each record takes a byte");
    Ok(count)
}
