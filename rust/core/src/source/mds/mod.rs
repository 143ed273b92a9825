//! MDS shards: records of typed columns, behind a table of offsets and a description of the columns.
//!
//! ```text
//! u32         the number of records
//! u32 each    the offset of each record in the file, and the end of the last
//! JSON        the names, encodings and sizes of the columns
//! records     the sizes of the columns that have no fixed one, as u32; then the columns, one after the other
//! ```
//!
//! All numbers are little-endian. A record becomes a JSON object. Columns that hold images, pickles or bytes are left
//! out: no shape of records has them.

mod columns;

use std::ops::Range;

use columns::{Columns, WORD, word};

use super::block::{Content, Reader};
use super::input::InputBytes;
use super::sizes::{BLOCK_BYTES, LONGEST_RECORD};
use crate::control::Control;
use crate::error::Result;
use crate::ledger::Reason;

/// The records of one shard, numbered from 1.
pub(super) struct MdsReader {
    input: InputBytes,
    /// The table of offsets and the columns, once they are read.
    shard: Option<Shard>,
    /// The index of the next record.
    next_record: usize,
    /// Content that follows the records of the last block.
    next: Option<Content>,
    ended: bool,
}

/// The description of a shard, before its records.
struct Shard {
    /// The end of each record in the file.
    ends: Vec<u32>,
    /// The offset of the next record.
    at: u32,
    columns: Columns,
}

impl Shard {
    /// Reads what stands before the records. Returns the fault of what is no shard.
    fn read(
        input: &mut InputBytes,
        control: &Control,
    ) -> Result<std::result::Result<Self, String>> {
        let mut bytes = Vec::new();
        if input.fill(&mut bytes, WORD, control)? < WORD {
            return Ok(Err("the file ends before its first record".to_owned()));
        }
        let count = word(&bytes, 0) as usize;
        let table = (count + 1) * WORD;
        let mut offsets = Vec::new();
        if input.fill(&mut offsets, table, control)? < table {
            return Ok(Err(format!("the file ends within the offsets of {count} records")));
        }
        let offsets: Vec<u32> = (0..=count).map(|index| word(&offsets, index * WORD)).collect();
        let first = offsets[0] as usize;
        if first < WORD + table || !offsets.is_sorted() {
            return Ok(Err("the offsets of the records are out of order".to_owned()));
        }
        let described = first - WORD - table;
        let mut text = Vec::new();
        if input.fill(&mut text, described, control)? < described {
            return Ok(Err("the file ends within the description of its columns".to_owned()));
        }
        let columns = match Columns::described(&text) {
            Ok(columns) => columns,
            Err(fault) => return Ok(Err(fault)),
        };
        Ok(Ok(Self { at: offsets[0], ends: offsets[1..].to_vec(), columns }))
    }
}

impl MdsReader {
    pub(super) fn new(input: InputBytes) -> Self {
        Self { input, shard: None, next_record: 0, next: None, ended: false }
    }

    /// Ends the file at the next record.
    fn stop(&mut self, message: String) {
        self.ended = true;
        let message = self.input.take_damage().unwrap_or(message);
        let line = self.next_record as u64 + 1;
        self.next = Some(Content::Broken { line, reason: Reason::Damaged, message });
    }

    /// Reads the next record, and appends it to `bytes` as JSON. Returns its place; `None` if it is not valid.
    fn record(&mut self, bytes: &mut Vec<u8>, control: &Control) -> Result<Option<Range<usize>>> {
        let Some(shard) = &mut self.shard else { return Ok(None) };
        let end = shard.ends[self.next_record];
        let size = (end - shard.at) as usize;
        let mut record = Vec::new();
        if self.input.fill(&mut record, size, control)? < size {
            self.stop("the file ends within the record".to_owned());
            return Ok(None);
        }
        shard.at = end;
        self.next_record += 1;
        let start = bytes.len();
        let written = if size > LONGEST_RECORD {
            Err((Reason::LineTooLong, format!("a record of more than {LONGEST_RECORD} bytes")))
        } else {
            shard.columns.write(&record, bytes).map_err(|fault| (Reason::Damaged, fault))
        };
        if let Err((reason, message)) = written {
            bytes.truncate(start);
            self.next = Some(Content::Refused { line: self.next_record as u64, reason, message });
            return Ok(None);
        }
        Ok(Some(start..bytes.len()))
    }
}

impl Reader for MdsReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<Content>> {
        if self.shard.is_none() && !self.ended {
            match Shard::read(&mut self.input, control)? {
                Ok(shard) => self.shard = Some(shard),
                Err(fault) => self.stop(fault),
            }
        }
        if let Some(content) = self.next.take() {
            return Ok(Some(content));
        }
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let records = self.shard.as_ref().map_or(0, |shard| shard.ends.len());
        while !self.ended && self.next_record < records && bytes.len() < BLOCK_BYTES {
            control.tick()?;
            match self.record(&mut bytes, control)? {
                Some(place) => places.push((self.next_record as u64, place)),
                None => break,
            }
        }
        if places.is_empty() {
            return Ok(self.next.take());
        }
        Ok(Some(Content::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
