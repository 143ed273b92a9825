//! MDS shards: records of typed columns, behind a table of offsets and a description of the columns.
//!
//! ```text
//! u32         the number of records
//! u32 each    the offset of each record in the file, and the end of the last
//! JSON        the names, encodings and sizes of the columns
//! records     the sizes of the columns that have no fixed one, as u32; then the columns, one after the other
//! ```
//!
//! All numbers are little-endian. A record becomes a JSON object, in which pictures are base64. Columns that hold pickles, and
//! bytes that are no pictures, are left out: no shape of records has them.

mod head;
mod mds_columns;
mod mds_extent;
mod size_numbers;
mod tiff;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use head::MdsHead;
pub(crate) use mds_extent::MdsExtent;

use crate::error::Result;
use crate::report::ledger::Reason;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::decompressed_input::InputBytes;
use crate::source::sizes::{BLOCK_BYTES, LONGEST_RECORD};
use crate::util::control::Control;

/// The records of one shard, numbered from 1.
pub(crate) struct MdsReader {
    input: InputBytes,
    /// The bytes of the shard before its records, once they are read.
    head: Option<Arc<MdsHead>>,
    /// The indices of the records that were not read yet.
    records: Range<usize>,
    /// Content that follows the records of the last block.
    next: Option<BlockContent>,
    ended: bool,
}

impl MdsReader {
    /// The records of a whole shard.
    pub(crate) fn new(input: InputBytes) -> Self {
        Self { input, head: None, records: 0..0, next: None, ended: false }
    }

    /// Some records of a shard. `input` gives their bytes.
    fn of_records(input: InputBytes, head: Arc<MdsHead>, records: Range<usize>) -> Self {
        Self { input, head: Some(head), records, next: None, ended: false }
    }

    /// Ends the file at the next record.
    fn stop(&mut self, message: String) {
        self.ended = true;
        let message = self.input.take_damage().unwrap_or(message);
        let line = self.records.start as u64 + 1;
        self.next = Some(BlockContent::Broken { line, reason: Reason::Damaged, message });
    }

    /// Reads the record `index`, and appends it to `bytes` as JSON. Returns its place; `None` if it is not valid.
    fn record(
        &mut self,
        head: &MdsHead,
        index: usize,
        bytes: &mut Vec<u8>,
        control: &Control,
    ) -> Result<Option<Range<usize>>> {
        let size = head.size(index);
        let mut record = Vec::new();
        if self.input.fill(&mut record, size, control)? < size {
            self.stop("the file ends within the record".to_owned());
            return Ok(None);
        }
        self.records.start += 1;
        let start = bytes.len();
        let written = if size > LONGEST_RECORD {
            Err((Reason::LineTooLong, format!("a record of more than {LONGEST_RECORD} bytes")))
        } else {
            head.columns.write(&record, bytes).map_err(|fault| (Reason::Damaged, fault))
        };
        if let Err((reason, message)) = written {
            bytes.truncate(start);
            self.next = Some(BlockContent::Refused { line: index as u64 + 1, reason, message });
            return Ok(None);
        }
        Ok(Some(start..bytes.len()))
    }
}

impl BlockReader for MdsReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        if self.head.is_none() && !self.ended {
            match MdsHead::read(&mut self.input, control)? {
                Ok(head) => {
                    self.records = 0..head.records();
                    self.head = Some(Arc::new(head));
                }
                Err(fault) => self.stop(fault),
            }
        }
        if let Some(content) = self.next.take() {
            return Ok(Some(content));
        }
        let Some(head) = self.head.clone() else { return Ok(None) };
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        while !self.ended && !self.records.is_empty() && bytes.len() < BLOCK_BYTES {
            control.tick()?;
            let index = self.records.start;
            match self.record(&head, index, &mut bytes, control)? {
                Some(place) => places.push((index as u64 + 1, place)),
                None => break,
            }
        }
        if places.is_empty() {
            return Ok(self.next.take());
        }
        Ok(Some(BlockContent::Values { bytes, places }))
    }

    fn position(&self) -> u64 {
        self.input.position()
    }
}
