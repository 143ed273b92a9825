//! [`WindowReader`]: the lines that begin in some windows of a file.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec;

use crate::error::{Error, Result};
use crate::report::ledger::Reason;
use crate::source::block::{Content, Reader, is_index_line};
use crate::source::sizes::{BLOCK_BYTES, BYTE_ORDER_MARK, LONGEST_RECORD, PEEKED};
use crate::storage::{Location, OpenFile};
use crate::util::control::Control;

/// Bytes that are first read beyond a window, to the end of its last line: a page, and more each time.
const STEP: u64 = 4 << 10;

/// The lines that begin in some windows of a file.
pub(crate) struct WindowReader {
    path: Arc<Path>,
    file: OpenFile,
    windows: vec::IntoIter<Range<u64>>,
    position: u64,
    /// True if an index line stands before each record.
    indexed: bool,
    /// The counter of the records' bytes.
    bytes: Arc<AtomicU64>,
    /// A line that is too long, after the lines of the last window.
    refused: Option<Content>,
}

impl WindowReader {
    /// The lines of a file that begin in `windows`, identified by the offset at which they begin.
    /// Adds their bytes to `bytes`.
    pub(crate) fn open(
        location: &Location,
        windows: Vec<Range<u64>>,
        bytes: Arc<AtomicU64>,
    ) -> Result<Self> {
        let path = location.name();
        let starts = windows.iter().map(|window| window.start.saturating_sub(1));
        let mut file = location.open_scattered(starts).map_err(Error::io(&**path))?;
        let mut start = Vec::new();
        let peeked = file.by_ref().take(PEEKED as u64).read_to_end(&mut start);
        peeked.map_err(Error::io(&**path))?;
        let indexed = start.split(|byte| *byte == b'\n').next().is_some_and(is_index_line);
        let (path, windows) = (Arc::clone(path), windows.into_iter());
        Ok(Self { path, file, windows, position: 0, indexed, bytes, refused: None })
    }

    /// Reads at least `wanted` more bytes, if there are that many.
    fn read(&mut self, bytes: &mut Vec<u8>, wanted: u64) -> Result<bool> {
        let read = self.file.by_ref().take(wanted).read_to_end(bytes);
        Ok(read.map_err(Error::io(&*self.path))? as u64 == wanted)
    }
}

impl Reader for WindowReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<Content>> {
        if self.refused.is_some() {
            return Ok(self.refused.take());
        }
        let Some(window) = self.windows.next() else { return Ok(None) };
        // A line begins after a newline, which may be the byte before the window.
        let from = window.start.saturating_sub(1);
        self.file.seek(SeekFrom::Start(from)).map_err(Error::io(&*self.path))?;
        let mut bytes = Vec::new();
        let mut more = self.read(&mut bytes, window.end - from)?;
        let first = memchr::memchr(b'\n', &bytes).map(|newline| newline + 1);
        let mut start = if window.start == 0 { 0 } else { first.unwrap_or(bytes.len()) };
        if window.start == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
            start = BYTE_ORDER_MARK.len();
        }
        let within = bytes.len();
        let mut places = Vec::new();
        'lines: while start < within {
            let (mut searched, mut step) = (start, STEP);
            let end = loop {
                if let Some(newline) = memchr::memchr(b'\n', &bytes[searched..]) {
                    break searched + newline;
                }
                searched = bytes.len();
                if !more {
                    break bytes.len();
                }
                control.tick()?;
                if bytes.len() - start > LONGEST_RECORD {
                    self.refused = Some(Content::Refused {
                        line: from + start as u64,
                        reason: Reason::LineTooLong,
                        message: format!("a line of more than {LONGEST_RECORD} bytes"),
                    });
                    break 'lines;
                }
                more = self.read(&mut bytes, step)?;
                step = (2 * step).min(BLOCK_BYTES as u64);
            };
            let line = &bytes[start..end];
            let is_record = !line.trim_ascii().is_empty();
            if is_record && (!self.indexed || !is_index_line(line)) {
                places.push((from + start as u64, start..end));
            }
            self.bytes.fetch_add((end + 1 - start) as u64, Ordering::Relaxed);
            start = end + 1;
        }
        self.position = window.end;
        Ok(Some(Content::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.position
    }
}
