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

/// The records of one file.
pub(super) struct CsvReader {
    path: Arc<Path>,
    /// The file, and a newline: so that each record ends with one.
    records: csv::Reader<Chain<Watched, &'static [u8]>>,
    /// Newlines before the record that was read last.
    newlines: u64,
    names: Option<Arc<[Arc<str>]>>,
    /// The record that was read last: it is one if the file did not break off in it.
    last: Option<(u64, ByteRecord)>,
    broken: Option<Content>,
}

impl CsvReader {
    pub(super) fn new(input: Input, path: &Arc<Path>, delimiter: u8) -> Self {
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(delimiter);
        let input = Watched { input, read: 0, newlines: VecDeque::new() };
        let records = builder.from_reader(input.chain(b"\n".as_slice()));
        Self { path: Arc::clone(path), records, newlines: 0, names: None, last: None, broken: None }
    }

    /// The next line of the table and its number.
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
        let line = self.newlines - own as u64 + 1;
        Ok(Some((line, cells)))
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
            let damage = self.records.get_mut().get_mut().0.input.take_damage();
            return Ok(self.broken.take().or_else(|| {
                damage.map(|message| Content::Broken { line: 1, reason: Reason::Damaged, message })
            }));
        };
        let mut lines = Vec::new();
        let mut bytes = 0;
        while bytes < BLOCK_BYTES {
            let Some(next) = self.read()? else {
                if let Some(message) = self.records.get_mut().get_mut().0.input.take_damage() {
                    let cut = self.last.take().map(|(line, _)| line);
                    let line = cut.unwrap_or_else(|| self.newlines + 1);
                    let reason = Reason::Damaged;
                    self.broken = Some(Content::Broken { line, reason, message });
                }
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
