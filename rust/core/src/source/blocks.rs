//! [`Blocks`]: all records of a list of files, in order.

use std::fmt;

use super::block::{Block, Content, Reader};
use super::csv::CsvReader;
use super::format::{Container, Format};
use super::input::Input;
use super::json::ArrayReader;
use super::lines::LineReader;
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

/// All blocks of a list of files, in order.
pub struct Blocks {
    files: std::vec::IntoIter<SourceFile>,
    open: Option<Open>,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.open.as_ref().map(|open| &open.file.path);
        f.debug_struct("Blocks").field("files", &self.files).field("open", &path).finish()
    }
}

/// The file at hand.
struct Open {
    file: SourceFile,
    reader: Box<dyn Reader>,
    /// How much of the file the blocks so far accounted for.
    counted: u64,
    ended: bool,
}

impl Blocks {
    /// The blocks of `files`.
    pub fn new(files: Vec<SourceFile>) -> Self {
        Self { files: files.into_iter(), open: None }
    }

    /// The next block; nothing after the last of the last file.
    ///
    /// What cannot be read of a file is a record of its own, the file's last.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        loop {
            if self.open.is_none() {
                let Some(file) = self.files.next() else { return Ok(None) };
                let reader = open(&file)?;
                self.open = Some(Open { file, reader, counted: 0, ended: false });
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
                (content, self.reader.position().min(self.file.size))
            }
            // An end that no record reached, such as a file's footer, is accounted for too.
            None if self.counted < self.file.size => {
                self.ended = true;
                (Content::Values { bytes: Vec::new(), places: Vec::new() }, self.file.size)
            }
            None => return Ok(None),
        };
        let size = end.saturating_sub(self.counted);
        self.counted += size;
        Ok(Some(Block { path: self.file.path.clone(), size, content }))
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
