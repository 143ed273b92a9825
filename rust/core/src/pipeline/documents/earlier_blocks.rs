//! [`EarlierBlocks`]: the kept documents of a file that has grown since.

use std::ops::Range;

use crate::document::store::Log;
use crate::error::Result;
use crate::pipeline::documents::intake::Outcome;
use crate::source::Block;

/// The documents that an earlier job kept of a file which has grown since. Blocks with the same records are not tokenized again: all but
/// the last, which is longer now.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct EarlierBlocks<'a> {
    /// The log of the earlier job.
    pub(in crate::pipeline) log: &'a Log,
    /// The numbers of the file's blocks in that log.
    pub(in crate::pipeline) numbers: Range<u64>,
    /// The number of the file's first block in this job.
    pub(in crate::pipeline) first: u64,
}

impl EarlierBlocks<'_> {
    /// Takes the documents of the block `number` of this job, and writes them to its log; false if its records are others.
    pub(super) fn take(
        &self,
        (number, block): (u64, &Block),
        outcome: &mut Outcome,
        log: &Log,
    ) -> Result<bool> {
        let old = number - self.first + self.numbers.start;
        if !self.numbers.contains(&old) {
            return Ok(false);
        }
        let Some((entry, _)) = self.log.entry(old, Some(&block.path))? else { return Ok(false) };
        if Some(&entry.fingerprint) != outcome.fingerprint.as_ref() {
            return Ok(false);
        }
        (outcome.documents, outcome.ledger) = (entry.documents, entry.ledger);
        outcome.write_down(log, number)?;
        Ok(true)
    }
}
