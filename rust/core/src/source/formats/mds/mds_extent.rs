//! [`MdsExtent`]: some neighbouring records of a shard, without those before them.

use std::ops::Range;
use std::sync::Arc;

use super::{MdsHead, MdsReader};
use crate::error::Result;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::util::control::Control;

/// The records of an extent.
pub(crate) struct MdsExtent {
    records: MdsReader,
    /// Bytes of the content so far, and of the last.
    read: u64,
    taken: u64,
}

impl MdsExtent {
    /// The records with the indices `records` of a shard that is not compressed.
    pub(crate) fn open(
        file: &SourceFile,
        head: &Arc<MdsHead>,
        records: Range<usize>,
    ) -> Result<Self> {
        let input = InputBytes::of_range(&file.location, head.bytes(&records))?;
        let records = MdsReader::of_records(input, Arc::clone(head), records);
        Ok(Self { records, read: 0, taken: 0 })
    }
}

impl BlockReader for MdsExtent {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        let content = self.records.next_content(control)?;
        let read = self.records.position();
        (self.taken, self.read) = (read - self.read, read);
        Ok(content)
    }

    fn position(&self) -> u64 {
        self.taken
    }
}
