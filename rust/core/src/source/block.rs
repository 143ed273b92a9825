//! [`Block`]: some records of one file, as bytes, cells or rows, with their line numbers.

use std::hash::Hasher;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::ipc::writer::StreamWriter;
use twox_hash::XxHash3_64;

use super::extents::line_file::LineFile;
use super::formats::unread_lines::UnreadLines;
use super::index_lines::is_index_line;
use crate::error::Result;
use crate::report::ledger::Reason;
use crate::util::control::Control;

/// Some records of one file, in order.
#[derive(Debug)]
pub struct Block {
    /// The file.
    pub path: Arc<Path>,
    /// The index of the file among those that were found.
    pub file: usize,
    /// The index of the source of the file.
    pub source: usize,
    /// The number of earlier reads of its source, which is repeated.
    pub repetition: u64,
    /// True if the lines before those that are read of the file were read by an earlier run.
    pub is_continued: bool,
    /// Bytes of the file that this block accounts for, including skipped bytes.
    pub size: u64,
    pub(super) content: BlockContent,
    /// The changes that the caller's `filter` and `map` made, if any.
    pub(super) changes: Option<RecordChanges>,
    /// The number of records that are read, from the first on.
    limit: usize,
}

/// The changes of `filter` and `map` to the records of a block.
#[derive(Debug)]
pub(super) struct RecordChanges {
    /// The JSON of changed records.
    bytes: Vec<u8>,
    /// One change for each record.
    each: Vec<RecordChange>,
}

/// The change of `filter` and `map` to one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// The record stays unchanged.
    Stays,
    /// The record is left out.
    Goes,
    /// The record becomes the changed record at this index.
    Becomes(Range<usize>),
    /// The record is refused, for this reason and with this message.
    Refused(Reason, String),
}

/// The records of a block.
#[derive(Debug)]
pub(super) enum BlockContent {
    /// Whole lines, and the number of the first line. If `indexed`, an index line stands before each record.
    Lines { first_line: u64, bytes: Vec<u8>, indexed: bool },
    /// JSON values, and the line and the bytes of each.
    Values { bytes: Vec<u8>, places: Vec<(u64, Range<usize>)> },
    /// Lines of a table in text, each with its number.
    Cells { names: Arc<[Arc<str>]>, lines: Vec<(u64, LineCells)> },
    /// Rows of a table, and the number of the first.
    Rows { first_row: u64, batch: RecordBatch },
    /// Texts, and the line and the bytes of each.
    Texts { bytes: Vec<u8>, places: Vec<(u64, Range<usize>)> },
    /// CBOR items, and the number and the bytes of each.
    Items { bytes: Vec<u8>, places: Vec<(u64, Range<usize>)> },
    /// Values from memory, with the number of the first. Each has its bytes, or the reason that it is not
    /// valid.
    FromMemory {
        first: u64,
        bytes: Vec<u8>,
        places: Vec<std::result::Result<Range<usize>, String>>,
    },
    /// One record that is not read. The file continues after it.
    Refused { line: u64, reason: Reason, message: String },
    /// The line from which on the file cannot be read.
    Broken { line: u64, reason: Reason, message: String },
}

/// The texts of one line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCells {
    /// All texts, end to end.
    text: Box<[u8]>,
    /// The end of each text.
    ends: Box<[usize]>,
}

impl LineCells {
    pub(super) fn new(text: &[u8], ends: &[usize]) -> Self {
        Self { text: Box::from(text), ends: Box::from(ends) }
    }

    /// The texts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.text[start..end])
    }

    /// The number of texts.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// All texts, end to end.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}

/// A reader of the blocks of one open file.
pub(super) trait BlockReader: Send {
    /// The next records; `None` after the last.
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>>;

    /// The next records, if any thread may read them; `None` if this one has to.
    fn next_unread(&mut self) -> Result<Option<UnreadLines>> {
        Ok(None)
    }

    /// The bytes of the file that were used for the records so far.
    fn position(&self) -> u64;

    /// The open file, if another extent of it can be read with it.
    fn into_file(self: Box<Self>) -> Option<LineFile> {
        None
    }
}

/// A record of a file, unparsed, with its line.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// The line at which it begins, or the row of a table; from 1.
    pub line: u64,
    /// The record.
    pub raw: RawContent<'a>,
}

/// A record of a file, unparsed.
#[derive(Clone, Copy, Debug)]
pub enum RawContent<'a> {
    /// A JSON value.
    Json(&'a [u8]),
    /// Texts under the names of their columns.
    Cells {
        /// The names.
        names: &'a [Arc<str>],
        /// The texts. There may be more or fewer than names.
        cells: &'a LineCells,
    },
    /// A row of a table.
    Row {
        /// The table.
        batch: &'a RecordBatch,
        /// The row in it, from 0.
        row: usize,
    },
    /// Plain text.
    Text(&'a [u8]),
    /// A CBOR item.
    Cbor(&'a [u8]),
    /// The record, or the rest of the file, cannot be read.
    Broken {
        /// The reason under which it is counted.
        reason: Reason,
        /// The message.
        message: &'a str,
    },
}

impl BlockContent {
    /// An empty content.
    pub(super) fn nothing() -> Self {
        Self::Values { bytes: Vec::new(), places: Vec::new() }
    }
}

impl Block {
    /// Some records of a file, and the bytes that they take in it.
    pub(super) fn new(
        path: &Arc<Path>,
        file: usize,
        source: usize,
        size: u64,
        content: BlockContent,
    ) -> Self {
        let path = Arc::clone(path);
        Self {
            path,
            file,
            source,
            repetition: 0,
            is_continued: false,
            size,
            content,
            changes: None,
            limit: usize::MAX,
        }
    }

    /// Sets the number of earlier reads of its source.
    #[must_use]
    pub(crate) fn read_again(self, repetition: u64) -> Self {
        Self { repetition, ..self }
    }

    /// Keeps at most the first `most` records, and returns their number.
    pub(super) fn limit(&mut self, most: u64) -> u64 {
        self.limit = usize::try_from(most).unwrap_or(usize::MAX);
        if let BlockContent::Rows { batch, .. } = &mut self.content {
            *batch = batch.slice(0, batch.num_rows().min(self.limit));
        }
        self.own_records().count() as u64
    }

    /// Keeps the records that are `taken`, and drops the others and those after its end.
    ///
    /// Of a table, the same number of consecutive rows is kept, since rows are numbered from the first.
    pub(super) fn keep(&mut self, taken: &[bool]) {
        let mut records = taken.iter().copied();
        let mut is_taken = || records.next().unwrap_or(false);
        match &mut self.content {
            BlockContent::Rows { first_row, batch } => {
                let count = taken.iter().filter(|taken| **taken).count();
                let first = taken.iter().position(|taken| *taken).unwrap_or(0);
                let first = first.min(taken.len() - count);
                *first_row += first as u64;
                *batch = batch.slice(first, count);
            }
            BlockContent::Cells { lines, .. } => lines.retain(|_| is_taken()),
            BlockContent::Values { places, .. }
            | BlockContent::Texts { places, .. }
            | BlockContent::Items { places, .. } => places.retain(|_| is_taken()),
            BlockContent::Lines { .. } => {
                // Lines have no places. Those that stay are copied together, so that no later step searches
                // for them.
                let (mut kept, mut places) = (Vec::new(), Vec::new());
                for record in self.own_records().filter(|_| is_taken()) {
                    if let RawContent::Json(text) = record.raw {
                        places.push((record.line, kept.len()..kept.len() + text.len()));
                        kept.extend_from_slice(text);
                    }
                }
                self.content = BlockContent::Values { bytes: kept, places };
            }
            BlockContent::Refused { .. } | BlockContent::Broken { .. } if is_taken() => {}
            BlockContent::Refused { .. }
            | BlockContent::Broken { .. }
            | BlockContent::FromMemory { .. } => {
                self.content = BlockContent::nothing();
            }
        }
    }

    /// A hash of its records, in hexadecimal. Equal records have equal hashes.
    pub fn fingerprint(&self) -> Result<String> {
        let mut hasher = blake3::Hasher::new();
        self.hash(&mut hasher)?;
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// A hash of its records that tells whether they have changed, in less time than a fingerprint takes: streams make one
    /// of each block.
    pub(crate) fn short_hash(&self) -> Result<u32> {
        struct Short(XxHash3_64);
        impl Write for Short {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.write(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut hasher = Short(XxHash3_64::new());
        self.hash(&mut hasher)?;
        let [first, second, third, fourth, ..] = hasher.0.finish().to_le_bytes();
        Ok(u32::from_le_bytes([first, second, third, fourth]))
    }

    fn hash(&self, hasher: &mut impl Write) -> Result<()> {
        match &self.content {
            BlockContent::Lines { bytes, .. } => add(hasher, bytes),
            BlockContent::Values { bytes, places }
            | BlockContent::Texts { bytes, places }
            | BlockContent::Items { bytes, places } => {
                add_with_size(hasher, bytes);
                for (line, Range { start, end }) in places {
                    add(hasher, &line.to_le_bytes());
                    add(hasher, &(*start as u64).to_le_bytes());
                    add(hasher, &(*end as u64).to_le_bytes());
                }
            }
            BlockContent::Cells { names, lines } => {
                // The ends of the cells tell `ab,c` from `a,bc`.
                names.iter().for_each(|name| add_with_size(hasher, name.as_bytes()));
                for (_, line) in lines {
                    line.iter().for_each(|cell| add_with_size(hasher, cell));
                }
            }
            BlockContent::Rows { batch, .. } => add_rows(hasher, batch)?,
            BlockContent::FromMemory { bytes, places, .. } => {
                add_with_size(hasher, bytes);
                add_with_size(hasher, format!("{places:?}").as_bytes());
            }
            BlockContent::Refused { reason, message, .. }
            | BlockContent::Broken { reason, message, .. } => {
                add_with_size(hasher, reason.name().as_bytes());
                add_with_size(hasher, message.as_bytes());
            }
        }
        if let Some(RecordChanges { bytes, each }) = &self.changes {
            add_with_size(hasher, bytes);
            add_with_size(hasher, format!("{each:?}").as_bytes());
        }
        Ok(())
    }

    /// The records, in order, after the changes of `filter` and `map`.
    pub fn records(&self) -> Box<dyn Iterator<Item = RawRecord<'_>> + '_> {
        let Some(RecordChanges { bytes, each }) = &self.changes else {
            return Box::new(self.own_records());
        };
        Box::new(self.own_records().zip(each).filter_map(move |(record, change)| match change {
            RecordChange::Stays => Some(record),
            RecordChange::Goes => None,
            RecordChange::Becomes(place) => {
                Some(RawRecord { raw: RawContent::Json(&bytes[place.clone()]), ..record })
            }
            RecordChange::Refused(reason, message) => {
                Some(RawRecord { raw: RawContent::Broken { reason: *reason, message }, ..record })
            }
        }))
    }

    /// The number of records that `filter` left out.
    pub fn left_out(&self) -> u64 {
        let changes = self.changes.iter().flat_map(|changes| &changes.each);
        changes.filter(|change| **change == RecordChange::Goes).count() as u64
    }

    /// The block with the changes of `filter` and `map`: one change for each record, and the JSON of changed
    /// records. A record that was refused before stays so, unless it is left out.
    #[must_use]
    pub fn with_changes(self, mut each: Vec<RecordChange>, bytes: Vec<u8>) -> Self {
        for (before, change) in
            self.changes.into_iter().flat_map(|changes| changes.each).zip(&mut each)
        {
            if matches!(before, RecordChange::Refused(..)) && *change != RecordChange::Goes {
                *change = before;
            }
        }
        Self { changes: Some(RecordChanges { bytes, each }), ..self }
    }

    /// The block with records refused: their places among its records, and why.
    #[must_use]
    pub fn refusing(self, refused: Vec<(usize, (Reason, String))>) -> Self {
        if refused.is_empty() {
            return self;
        }
        let mut each = vec![RecordChange::Stays; self.records().count()];
        for (at, (reason, message)) in refused {
            each[at] = RecordChange::Refused(reason, message);
        }
        self.with_changes(each, Vec::new())
    }

    /// The rows, if the block is a part of a table.
    pub fn table(&self) -> Option<&RecordBatch> {
        match &self.content {
            BlockContent::Rows { batch, .. } => Some(batch),
            _ => None,
        }
    }

    fn own_records(&self) -> impl Iterator<Item = RawRecord<'_>> {
        self.all_records().take(self.limit)
    }

    fn all_records(&self) -> Box<dyn Iterator<Item = RawRecord<'_>> + '_> {
        match &self.content {
            BlockContent::Lines { first_line, bytes, indexed } => {
                let records = lines(*first_line, bytes);
                let indexed = *indexed;
                Box::new(records.filter(move |record| !(indexed && is_index(record))))
            }
            BlockContent::Values { bytes, places } => {
                Box::new(places.iter().map(|(line, range)| RawRecord {
                    line: *line,
                    raw: RawContent::Json(&bytes[range.clone()]),
                }))
            }
            BlockContent::Cells { names, lines } => Box::new(lines.iter().map(|(line, cells)| {
                RawRecord { line: *line, raw: RawContent::Cells { names, cells } }
            })),
            BlockContent::Rows { first_row, batch } => {
                Box::new((0..batch.num_rows()).map(move |row| RawRecord {
                    line: first_row + row as u64,
                    raw: RawContent::Row { batch, row },
                }))
            }
            BlockContent::Texts { bytes, places } => {
                Box::new(places.iter().map(|(line, range)| RawRecord {
                    line: *line,
                    raw: RawContent::Text(&bytes[range.clone()]),
                }))
            }
            BlockContent::Items { bytes, places } => {
                Box::new(places.iter().map(|(number, range)| RawRecord {
                    line: *number,
                    raw: RawContent::Cbor(&bytes[range.clone()]),
                }))
            }
            BlockContent::FromMemory { first, bytes, places } => {
                Box::new((*first..).zip(places).map(|(line, place)| RawRecord {
                    line,
                    raw: match place {
                        Ok(range) => RawContent::Json(&bytes[range.clone()]),
                        Err(message) => RawContent::Broken { reason: Reason::WrongType, message },
                    },
                }))
            }
            BlockContent::Refused { line, reason, message }
            | BlockContent::Broken { line, reason, message } => {
                let raw = RawContent::Broken { reason: *reason, message };
                Box::new(std::iter::once(RawRecord { line: *line, raw }))
            }
        }
    }
}

fn is_index(record: &RawRecord<'_>) -> bool {
    matches!(record.raw, RawContent::Json(line) if is_index_line(line))
}

/// Hashes rows and the schema.
pub(super) fn add_rows(hasher: &mut impl Write, rows: &RecordBatch) -> Result<()> {
    let mut writer = StreamWriter::try_new(hasher, &rows.schema())?;
    writer.write(rows)?;
    Ok(writer.finish()?)
}

/// The first bits of a hash.
pub(crate) fn short(hash: &blake3::Hash) -> u32 {
    let [first, second, third, fourth, ..] = *hash.as_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}

fn add(hasher: &mut impl Write, bytes: &[u8]) {
    hasher.write_all(bytes).expect("a hasher takes all bytes");
}

/// Hashes bytes and their number.
fn add_with_size(hasher: &mut impl Write, bytes: &[u8]) {
    add(hasher, &(bytes.len() as u64).to_le_bytes());
    add(hasher, bytes);
}

/// The lines that are not blank.
fn lines(first_line: u64, bytes: &[u8]) -> impl Iterator<Item = RawRecord<'_>> {
    let mut rest = bytes;
    let mut next = first_line;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let (line, text) = (next, &rest[..end]);
            rest = rest.get(end + 1..).unwrap_or_default();
            next += 1;
            if !text.trim_ascii().is_empty() {
                return Some(RawRecord { line, raw: RawContent::Json(text) });
            }
        }
    })
}
