//! [`EarlierBlocks`]: the kept documents of a file that has grown since.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::document::store::{LogEntry, TokenLog};
use crate::error::Result;

/// The documents that an earlier job kept of a file which has grown since. Blocks with the same records are not tokenized again: all but
/// the last, which is longer now.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct EarlierBlocks<'a> {
    /// The log of the earlier job.
    pub(in crate::pipeline) log: &'a TokenLog,
    /// The numbers of the file's blocks in that log.
    pub(in crate::pipeline) numbers: Range<u64>,
    /// The number of the file's first block in this job.
    pub(in crate::pipeline) first: u64,
}

impl EarlierBlocks<'_> {
    /// The documents of the block `number` of this job; `None` if its records are not those with this fingerprint.
    pub(super) fn entry(
        &self,
        number: u64,
        path: &Arc<Path>,
        fingerprint: Option<&str>,
    ) -> Result<Option<LogEntry>> {
        let old = number - self.first + self.numbers.start;
        if !self.numbers.contains(&old) {
            return Ok(None);
        }
        let entry = self.log.entry(old, Some(path))?.map(|(entry, _)| entry);
        Ok(entry.filter(|entry| Some(&*entry.fingerprint) == fingerprint))
    }
}
