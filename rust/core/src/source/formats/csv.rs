//! CSV and TSV: the first line names the columns, every other line is a record of texts. `record/tables/row.rs` puts them
//! under their names, and refuses a line with more or fewer.

use std::collections::HashSet;
use std::sync::Arc;

use csv_core::{ReadRecordResult, ReaderBuilder};

use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader, LineCells};
use crate::source::decompressed_input::InputBytes;
use crate::source::sizes::{BLOCK_BYTES, LONGEST_RECORD};
use crate::util::control::Control;

/// The bytes parsed after the file: they end the last record, and show a quote that does not close.
const BEHIND: &[u8] = b"\n\0\n";

/// The most cells of a record: more than any table has columns, and no more than memory has room for.
const MOST_CELLS: usize = 1 << 22;

/// The records of one file.
///
/// The parser finds the ends of records, whatever the chunks of bytes.
pub(crate) struct CsvReader {
    input: InputBytes,
    parser: csv_core::Reader,
    /// The bytes that are not parsed yet: `chunk[at..]`.
    chunk: Vec<u8>,
    at: usize,
    /// True if the chunk is [`BEHIND`].
    is_behind: bool,
    /// The cells of the current record, end to end, and the end of each. Both buffers are longer than the
    /// part in use.
    texts: Vec<u8>,
    ends: Vec<usize>,
    /// Newlines before the current byte.
    newlines: u64,
    names: Option<Arc<[Arc<str>]>>,
    /// The unreadable record that follows the records of the last block, if there is one.
    next: Option<BlockContent>,
    ended: bool,
}

/// The next line of a table.
enum CsvLine {
    /// A record, and the line on which it begins.
    Cells(u64, LineCells),
    /// A record that cannot be read, and the reason.
    TooLong(u64, String),
    /// The end of the file, and the line of a quote that does not close, if any.
    End(Option<u64>),
    /// The end of a file that is cut off, in the record that begins on this line.
    Damage(u64),
}

impl CsvReader {
    pub(crate) fn new(input: InputBytes, delimiter: u8) -> Self {
        Self {
            input,
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            chunk: Vec::new(),
            at: 0,
            is_behind: false,
            texts: vec![0; 1 << 10],
            ends: vec![0; 1 << 5],
            newlines: 0,
            names: None,
            next: None,
            ended: false,
        }
    }

    /// Reads a chunk, or [`BEHIND`] after the last; false after that.
    fn read_on(&mut self, control: &Control) -> Result<bool> {
        if self.is_behind {
            return Ok(false);
        }
        self.chunk.clear();
        self.at = 0;
        if self.input.fill(&mut self.chunk, BLOCK_BYTES, control)? == 0 {
            self.chunk.extend_from_slice(BEHIND);
            self.is_behind = true;
        }
        Ok(true)
    }

    /// The next record, or the end.
    fn read(&mut self, control: &Control) -> Result<CsvLine> {
        // Bytes and cells of the record, and newlines in its cells.
        let (mut length, mut count, mut own) = (0, 0, 0);
        let mut too_long = None;
        loop {
            if self.at == self.chunk.len() && !self.read_on(control)? {
                return Ok(CsvLine::End(Some(self.line(own))));
            }
            let (result, read, wrote, ended) = self.parser.read_record(
                &self.chunk[self.at..],
                &mut self.texts[length..],
                &mut self.ends[count..],
            );
            let parsed = &self.chunk[self.at..self.at + read];
            self.newlines += newlines(parsed);
            own += newlines(&self.texts[length..length + wrote]);
            self.at += read;
            (length, count) = (length + wrote, count + ended);
            match result {
                ReadRecordResult::Record => {
                    // A newline that ends the record is neither before it nor in its cells.
                    let ends_line = u64::from(parsed.last() == Some(&b'\n'));
                    let line = self.line(own) - ends_line;
                    if self.is_behind && self.at > 1 {
                        return Ok(CsvLine::End(None));
                    }
                    if self.is_behind && self.input.is_damaged() {
                        return Ok(CsvLine::Damage(line));
                    }
                    if let Some(reason) = too_long {
                        return Ok(CsvLine::TooLong(line, reason));
                    }
                    let cells = LineCells::new(&self.texts[..length], &self.ends[..count]);
                    return Ok(CsvLine::Cells(line, cells));
                }
                ReadRecordResult::OutputFull if length > LONGEST_RECORD => {
                    too_long = Some(format!("a record of more than {LONGEST_RECORD} bytes"));
                }
                ReadRecordResult::OutputFull if too_long.is_none() => {
                    self.texts.resize((2 * length).min(LONGEST_RECORD + 1), 0);
                }
                ReadRecordResult::OutputEndsFull if count >= MOST_CELLS => {
                    too_long = Some(format!("a record of more than {MOST_CELLS} cells"));
                }
                ReadRecordResult::OutputEndsFull if too_long.is_none() => {
                    self.ends.resize(2 * count, 0);
                }
                // More has to be read, unless the record is too long already.
                _ => {}
            }
            if too_long.is_some() {
                // The rest of a record that is too long is parsed and dropped.
                (length, count) = (0, 0);
            }
        }
    }

    /// The first line of the current record, which has `own` newlines in its cells.
    fn line(&self, own: u64) -> u64 {
        self.newlines - own + 1
    }

    /// The unreadable end of the file, if `line` is one.
    fn end(&mut self, line: &CsvLine) -> Option<BlockContent> {
        self.ended = true;
        let damage = self.input.take_damage();
        let line = match line {
            CsvLine::Damage(line) | CsvLine::End(Some(line)) => *line,
            // [`BEHIND`] has two newlines.
            _ if damage.is_some() => self.newlines - 1,
            _ => return None,
        };
        let message = damage.unwrap_or_else(|| {
            "the file ends before a quote that the record opens is closed".to_owned()
        });
        Some(BlockContent::Broken { line, reason: Reason::Damaged, message })
    }

    /// Reads the names of the columns, or the reason that there are none.
    fn read_names(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        let (line, reason, message) = match self.read(control)? {
            CsvLine::Cells(line, cells) => match names(&cells) {
                Ok(names) => {
                    self.names = Some(names);
                    return Ok(None);
                }
                Err((reason, message)) => (line, reason, message),
            },
            CsvLine::TooLong(line, message) => (line, Reason::LineTooLong, message),
            end => return Ok(self.end(&end)),
        };
        self.ended = true;
        Ok(Some(BlockContent::Broken { line, reason, message }))
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The names in the first line, or the reason that there are none.
fn names(cells: &LineCells) -> std::result::Result<Arc<[Arc<str>]>, (Reason, String)> {
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut known = HashSet::new();
    for cell in cells.iter() {
        let name = std::str::from_utf8(cell).map_err(|_| {
            (Reason::InvalidUtf8, "the names of the columns are not UTF-8".to_owned())
        })?;
        if !known.insert(name) {
            let message = format!("the first line must name the columns, but names `{name}` twice");
            return Err((Reason::WrongType, message));
        }
        names.push(Arc::from(name));
    }
    Ok(names.into())
}

impl BlockReader for CsvReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        if self.names.is_none() && !self.ended {
            self.next = self.read_names(control)?;
        }
        if self.next.is_some() {
            return Ok(self.next.take());
        }
        let Some(names) = self.names.clone() else { return Ok(None) };
        let mut lines = Vec::new();
        let mut bytes = 0;
        while bytes < BLOCK_BYTES && !self.ended {
            match self.read(control)? {
                CsvLine::Cells(line, cells) => {
                    bytes += cells.text().len();
                    lines.push((line, cells));
                }
                CsvLine::TooLong(line, message) => {
                    let reason = Reason::LineTooLong;
                    self.next = Some(BlockContent::Refused { line, reason, message });
                    break;
                }
                end => self.next = self.end(&end),
            }
        }
        // The memory of a long record is not kept for short ones.
        self.texts.truncate(BLOCK_BYTES);
        self.texts.shrink_to_fit();
        if lines.is_empty() {
            return Ok(self.next.take());
        }
        Ok(Some(BlockContent::Cells { names, lines }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
