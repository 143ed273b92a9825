//! [`Blocks`]: all records of a list of files, in order.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::block::{Block, Content, Reader};
use super::csv::CsvReader;
use super::format::{Container, Format};
use super::input::Input;
use super::json::ArrayReader;
use super::lines::LineReader;
use super::memory::{Memory, MemoryReader};
use super::text::TextReader;
use super::{SourceFile, ipc, parquet};
use crate::error::Result;

/// Bytes of a block: small enough that the first rows of a stream come at once and a block's text stays in
/// the second-level cache, large enough that handing it over costs nothing.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// Bytes that one record may have; a file without an end of one is not data.
pub(super) const LONGEST_RECORD: usize = 1 << 30;

/// What some editors put before UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes looked at to tell an array from lines: whatever stands before its bracket is blank.
const PEEKED: usize = 4 << 10;

/// All blocks of a list of files, or of what is in memory, in order.
pub struct Blocks {
    files: std::vec::IntoIter<SourceFile>,
    open: Option<Open>,
    size: u64,
    formats: HashMap<Arc<Path>, String>,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.open.as_ref().map(|open| &open.path);
        f.debug_struct("Blocks")
            .field("files", &self.files)
            .field("open", &path)
            .finish_non_exhaustive()
    }
}

/// The file at hand.
struct Open {
    path: Arc<Path>,
    /// Bytes in all, where that is known.
    size: Option<u64>,
    reader: Box<dyn Reader>,
    /// How much of the file the blocks so far accounted for.
    counted: u64,
    ended: bool,
}

impl Blocks {
    /// The blocks of `files`.
    pub fn new(files: Vec<SourceFile>) -> Self {
        Self {
            size: files.iter().map(|file| file.size).sum(),
            formats: files
                .iter()
                .map(|file| (Arc::clone(&file.path), file.format.to_string()))
                .collect(),
            files: files.into_iter(),
            open: None,
        }
    }

    /// The blocks of records in memory.
    pub fn of_memory(memory: Memory) -> Self {
        let path = Arc::clone(&memory.name);
        let formats = HashMap::from([(Arc::clone(&path), memory.format.to_owned())]);
        let size = memory.size;
        let reader = Box::new(MemoryReader::new(memory));
        let open = Some(Open { path, size: None, reader, counted: 0, ended: false });
        Self { files: Vec::new().into_iter(), open, size, formats }
    }

    /// Bytes of all files together, 0 where nobody knows.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What a file holds, as reports name it.
    pub fn format(&self, path: &Path) -> &str {
        self.formats.get(path).map_or("", String::as_str)
    }

    /// The next block; nothing after the last of the last file.
    ///
    /// What cannot be read of a file is a record of its own, the file's last.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        loop {
            if self.open.is_none() {
                let Some(file) = self.files.next() else { return Ok(None) };
                let reader = open(&file)?;
                let (path, size) = (file.path, Some(file.size));
                self.open = Some(Open { path, size, reader, counted: 0, ended: false });
            }
            let Some(open) = &mut self.open else { continue };
            match open.next_block()? {
                Some(block) => return Ok(Some(block)),
                None => self.open = None,
            }
        }
    }
}

impl Open {
    fn next_block(&mut self) -> Result<Option<Block>> {
        let content = if self.ended { None } else { self.reader.next_content()? };
        let (content, end) = match content {
            Some(content) => {
                self.ended = matches!(content, Content::Broken { .. });
                (content, self.reader.position().min(self.size.unwrap_or(u64::MAX)))
            }
            // An end that no record reached, such as a file's footer, is accounted for too.
            None => match self.size {
                Some(size) if self.counted < size => {
                    self.ended = true;
                    (Content::Values { bytes: Vec::new(), places: Vec::new() }, size)
                }
                _ => return Ok(None),
            },
        };
        let size = end.saturating_sub(self.counted);
        self.counted += size;
        Ok(Some(Block { path: Arc::clone(&self.path), size, content, fates: None }))
    }
}

/// Opens a file with the reader of its container.
fn open(file: &SourceFile) -> Result<Box<dyn Reader>> {
    let Format { container, compression } = file.format;
    let path = &file.path;
    let input = || Input::open(path, compression);
    Ok(match container {
        Container::Lines => Box::new(LineReader::new(input()?, path)),
        Container::Json => {
            let mut input = input()?;
            let start = input.peek(PEEKED)?;
            let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
            if start.trim_ascii_start().starts_with(b"[") {
                Box::new(ArrayReader::new(input, path))
            } else {
                Box::new(LineReader::new(input, path))
            }
        }
        Container::Csv => Box::new(CsvReader::new(input()?, path, b',')),
        Container::Tsv => Box::new(CsvReader::new(input()?, path, b'\t')),
        Container::Text => Box::new(TextReader::new(input()?, path)),
        Container::Parquet => parquet::open(file)?,
        Container::Arrow => ipc::open(file)?,
    })
}
