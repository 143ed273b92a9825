//! Tables in text: the first line names the columns, each further one is a record of texts.

use std::collections::VecDeque;
use std::io::{self, Chain, Read};
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use super::block::{Content, Reader};
use super::blocks::BLOCK_BYTES;
use super::input::Input;
use crate::error::{Error, Result};
use crate::ledger::Reason;

/// What is read behind the file: the end of its last record, and a record that only quotes which do not close take in.
const BEHIND: &[u8] = b"\n\0\n";

/// The records of one file.
pub(super) struct CsvReader {
    path: Arc<Path>,
    /// The file, and what is read behind it.
    records: csv::Reader<Chain<Watched, &'static [u8]>>,
    /// Newlines before the record that was read last.
    newlines: u64,
    names: Option<Arc<[Arc<str>]>>,
    /// The record that was read last: it is one if the file did not break off in it.
    last: Option<(u64, ByteRecord)>,
    /// Whether nothing in the file ends that record.
    is_open_ended: bool,
    /// The line of the record whose quotes do not close.
    open: Option<u64>,
    broken: Option<Content>,
}

impl CsvReader {
    pub(super) fn new(input: Input, path: &Arc<Path>, delimiter: u8) -> Self {
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(delimiter);
        let input = Watched { input, read: 0, newlines: VecDeque::new() };
        let records = builder.from_reader(input.chain(BEHIND));
        let (path, newlines) = (Arc::clone(path), 0);
        Self {
            path,
            records,
            newlines,
            names: None,
            last: None,
            is_open_ended: false,
            open: None,
            broken: None,
        }
    }

    /// The next line of the table and its number; nothing behind the last that is whole.
    fn read(&mut self) -> Result<Option<(u64, ByteRecord)>> {
        let mut cells = ByteRecord::new();
        let more = self.records.read_byte_record(&mut cells).map_err(|error| {
            let text = error.to_string();
            match error.into_kind() {
                ErrorKind::Io(source) => Error::io(&*self.path)(source),
                _ => Error::io(&*self.path)(io::Error::other(text)),
            }
        })?;
        if !more {
            return Ok(None);
        }
        // The parser counts blank lines before a record to it, and half of a `\r\n` after it to the next one; but
        // all newlines before its last byte are its own or stand before it.
        let last_byte = self.records.position().byte() - 1;
        let seen = &mut self.records.get_mut().get_mut().0.newlines;
        while seen.front().is_some_and(|newline| *newline < last_byte) {
            seen.pop_front();
            self.newlines += 1;
        }
        let own: usize = cells.iter().map(|cell| memchr::memchr_iter(b'\n', cell).count()).sum();
        let read = self.records.get_ref().get_ref().0.read;
        let is_behind = last_byte > read;
        if is_behind && cells.iter().eq([b"\0"]) {
            return Ok(None);
        }
        if is_behind {
            let own = own - memchr::memchr_iter(b'\n', BEHIND).count();
            self.open = Some(self.newlines - own as u64 + 1);
            return Ok(None);
        }
        self.is_open_ended = last_byte == read;
        Ok(Some((self.newlines - own as u64 + 1, cells)))
    }

    /// The place from which on the file cannot be read, once it has been read to its end, if there is one.
    fn damage(&mut self) -> Option<Content> {
        let (watched, _) = self.records.get_mut().get_mut();
        let damage = watched.input.take_damage();
        let line = match (self.open.take(), &damage) {
            (Some(line), _) => line,
            // What was read last is what the file breaks off in, unless it has its end.
            (None, Some(_)) => match self.last.take_if(|_| self.is_open_ended) {
                Some((line, _)) => line,
                None => self.newlines + watched.newlines.len() as u64 + 1,
            },
            (None, None) => return None,
        };
        let message = damage.unwrap_or_else(|| {
            "the file ends before a quote that the record opens is closed".to_owned()
        });
        Some(Content::Broken { line, reason: Reason::Damaged, message })
    }

    /// The names of the columns, from the first line; nothing where there is none, or it has no names.
    fn header(&mut self) -> Result<Option<Arc<[Arc<str>]>>> {
        if self.names.is_none()
            && let Some((line, cells)) = self.read()?
        {
            match names(&cells) {
                Ok(names) => self.names = Some(names),
                Err((reason, message)) => {
                    self.broken = Some(Content::Broken { line, reason, message });
                }
            }
        }
        Ok(self.names.clone())
    }
}

/// A file that tells where its newlines are.
struct Watched {
    input: Input,
    read: u64,
    /// The offsets of those that no record has reached.
    newlines: VecDeque<u64>,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        let newlines = memchr::memchr_iter(b'\n', &buffer[..read]);
        self.newlines.extend(newlines.map(|at| self.read + at as u64));
        self.read += read as u64;
        Ok(read)
    }
}

/// The names that the first line gives, or why it gives none.
fn names(cells: &ByteRecord) -> std::result::Result<Arc<[Arc<str>]>, (Reason, String)> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for cell in cells {
        let name = std::str::from_utf8(cell).map_err(|_| {
            (Reason::InvalidUtf8, "the names of the columns are not UTF-8".to_owned())
        })?;
        if names.iter().any(|known| **known == *name) {
            let message = format!("the first line must name the columns, but names `{name}` twice");
            return Err((Reason::WrongType, message));
        }
        names.push(Arc::from(name));
    }
    Ok(names.into())
}

impl Reader for CsvReader {
    fn next_content(&mut self) -> Result<Option<Content>> {
        let Some(names) = self.header()? else {
            let broken = self.broken.take();
            return Ok(broken.or_else(|| self.damage()));
        };
        let mut lines = Vec::new();
        let mut bytes = 0;
        while bytes < BLOCK_BYTES {
            let Some(next) = self.read()? else {
                self.broken = self.damage().or_else(|| self.broken.take());
                lines.extend(self.last.take());
                break;
            };
            bytes += next.1.as_slice().len();
            lines.extend(self.last.replace(next));
        }
        if lines.is_empty() {
            return Ok(self.broken.take());
        }
        Ok(Some(Content::Cells { names, lines }))
    }

    fn position(&self) -> u64 {
        self.records.get_ref().get_ref().0.input.position()
    }
}
