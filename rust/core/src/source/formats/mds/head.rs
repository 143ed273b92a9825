//! [`MdsHead`]: the bytes of a shard before its records, which tell where each of them lies.

use std::ops::Range;

use super::mds_columns::MdsColumns;
use super::size_numbers::{WORD, word};
use crate::error::{Error, Result};
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::util::control::Control;

/// The offsets and columns of a shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MdsHead {
    /// The offset of each record in the file, and the end of the last.
    offsets: Vec<u32>,
    pub(super) columns: MdsColumns,
}

impl MdsHead {
    /// Reads the beginning of a shard. Returns the fault of a file that is none.
    pub(super) fn read(
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
        Ok(MdsColumns::described(&text).map(|columns| Self { offsets, columns }))
    }

    /// The head of a file whose records can be read alone; `None` if it is compressed, has no records, or is damaged, which
    /// reading it reports later.
    pub(crate) fn of(file: &SourceFile, control: &Control) -> Result<Option<Self>> {
        if file.format.compression.is_some() {
            return Ok(None);
        }
        // The number of records, and the offset of the first: the end of the head.
        let start = file.location.start(2 * WORD).map_err(Error::io(&*file.path))?;
        if start.len() < 2 * WORD {
            return Ok(None);
        }
        let end = u64::from(word(&start, WORD)).min(file.size);
        let mut input = InputBytes::of_range(&file.location, 0..end)?;
        let head = Self::read(&mut input, control)?.ok();
        let is_whole = |head: &Self| {
            let end = head.offsets[head.records()];
            head.records() > 0 && u64::from(end) <= file.size
        };
        Ok(head.filter(is_whole))
    }

    /// The number of records.
    pub(crate) fn records(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The bytes of a record.
    pub(super) fn size(&self, index: usize) -> usize {
        (self.offsets[index + 1] - self.offsets[index]) as usize
    }

    /// The place of some records in the file.
    pub(crate) fn bytes(&self, records: &Range<usize>) -> Range<u64> {
        self.offsets[records.start].into()..self.offsets[records.end].into()
    }

    /// All records, cut into stretches of at most about `most` bytes.
    pub(crate) fn stretches(&self, most: u64) -> Vec<Range<usize>> {
        let mut stretches = Vec::new();
        let mut start = 0;
        while start < self.records() {
            let enough = u64::from(self.offsets[start]).saturating_add(most);
            let end = self.offsets.partition_point(|offset| u64::from(*offset) <= enough);
            // The offset at `end - 1` is the last that is not too far, and a record may be longer than `most`.
            let end = (end - 1).max(start + 1);
            stretches.push(start..end);
            start = end;
        }
        stretches
    }
}
