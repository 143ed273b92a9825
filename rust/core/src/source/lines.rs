//! Line files: read in blocks and cut at newlines, so that one large file keeps all threads busy.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::SourceFile;
use crate::error::{Error, Origin, Result};
use crate::ledger::Reason;

/// Bytes read at a time: small enough that the first rows of a stream come at once and a block's text stays in
/// the second-level cache, large enough that handing it over costs nothing.
const BLOCK_BYTES: usize = 256 << 10;

/// Bytes that one line may have; a file without newlines is not data.
const LONGEST_LINE: usize = 1 << 30;

/// What some editors put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Whole lines of one file.
#[derive(Debug)]
pub struct Block {
    /// The file.
    pub path: Arc<Path>,
    /// The number of the first line, from 1.
    pub first_line: u64,
    /// The lines.
    pub bytes: Vec<u8>,
    /// Bytes of the file that this block accounts for, what was skipped included.
    pub size: u64,
}

/// A line and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: u64,
    /// Without the newline.
    pub bytes: &'a [u8],
}

impl Block {
    /// The lines that are not blank.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut rest = self.bytes.as_slice();
        let mut number = self.first_line;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = Line { number, bytes: &rest[..end] };
            rest = rest.get(end + 1..).unwrap_or_default();
            number += 1;
            Some(line)
        })
        .filter(|line| !line.bytes.trim_ascii().is_empty())
    }
}

/// All blocks of a list of files, in order.
#[derive(Debug)]
pub struct Blocks {
    files: std::vec::IntoIter<SourceFile>,
    open: Option<Open>,
}

/// The file at hand.
#[derive(Debug)]
struct Open {
    path: Arc<Path>,
    file: File,
    next_line: u64,
    /// What was read after the last newline.
    rest: Vec<u8>,
}

impl Blocks {
    /// The blocks of `files`.
    pub fn new(files: Vec<SourceFile>) -> Self {
        Self { files: files.into_iter(), open: None }
    }

    /// The next block; nothing after the last of the last file.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        loop {
            if self.open.is_none() {
                let Some(file) = self.files.next() else { return Ok(None) };
                self.open = Some(Open::new(&file)?);
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
    fn new(file: &SourceFile) -> Result<Self> {
        let handle = File::open(&file.path).map_err(Error::io(&*file.path))?;
        Ok(Self { path: Arc::clone(&file.path), file: handle, next_line: 1, rest: Vec::new() })
    }

    fn next_block(&mut self) -> Result<Option<Block>> {
        let mut bytes = std::mem::take(&mut self.rest);
        let carried = bytes.len();
        let end = loop {
            let before = bytes.len();
            let wanted = BLOCK_BYTES.max(before);
            let chunk = (&self.file).take(wanted as u64);
            { chunk }.read_to_end(&mut bytes).map_err(Error::io(&*self.path))?;
            if bytes.len() - before < wanted {
                break bytes.len();
            }
            if let Some(newline) = memchr::memrchr(b'\n', &bytes[before..]) {
                break before + newline + 1;
            }
            if bytes.len() > LONGEST_LINE {
                let origin = Origin { path: Arc::clone(&self.path), line: self.next_line };
                let message = format!("a line of more than {LONGEST_LINE} bytes");
                return Err(Error::Record { origin, reason: Reason::LineTooLong, message });
            }
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        let read = (bytes.len() - carried) as u64;
        self.rest = bytes.split_off(end);
        let first_line = self.next_line;
        self.next_line += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        if first_line == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(Block { path: Arc::clone(&self.path), first_line, bytes, size: read }))
    }
}
