//! Tables: batches of rows, read by a background thread and cut into blocks of a bounded size.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::error::{Error, Result};
use crate::report::ledger::Reason;
use crate::source::background::BackgroundIterator;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::sizes::BLOCK_BYTES;
use crate::util::control::Control;

/// Batches that are read ahead.
const BATCHES_AHEAD: usize = 2;

/// The most rows of a block: enough that handing it over costs nothing beside reading them.
const BLOCK_ROWS: usize = 1024;

/// The rows of a block, given that `rows` rows take `bytes` bytes.
pub(crate) fn block_rows(rows: usize, bytes: usize) -> usize {
    let fitting = rows.saturating_mul(BLOCK_BYTES) / bytes.max(1);
    fitting.clamp(1, BLOCK_ROWS)
}

/// A batch, cut into parts of the size of a block.
pub(crate) struct BatchSlices {
    batch: RecordBatch,
    taken: usize,
}

impl BatchSlices {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self { batch, taken: 0 }
    }

    /// The next rows; `None` after the last.
    pub(crate) fn next_part(&mut self) -> Option<RecordBatch> {
        let left = self.batch.num_rows() - self.taken;
        let rows = block_rows(self.batch.num_rows(), self.batch.get_array_memory_size()).min(left);
        let part = self.batch.slice(self.taken, rows);
        self.taken += rows;
        (rows > 0).then_some(part)
    }
}

/// Chooses the columns to read, from the first rows; `None` for all.
pub(crate) type ColumnChoice = Box<dyn Fn(&RecordBatch) -> Option<Vec<String>> + Send>;

/// A batch, and the bytes of the file used so far.
pub(crate) type ReadRows = (RecordBatch, u64);

/// A batch, or the reason that there is none.
pub(crate) type ReadBatch = std::result::Result<ReadRows, String>;

/// The most characters of a library's message in an error.
const SHOWN: usize = 200;

/// The message of a library's error: its first line, cut to a bounded length.
pub(crate) fn short_message(error: impl Display) -> String {
    error.to_string().lines().next().unwrap_or_default().chars().take(SHOWN).collect()
}

/// The rows of one file.
pub(crate) struct RowReader {
    batches: BackgroundIterator<ReadBatch>,
    /// The current batch.
    batch: Option<BatchSlices>,
    /// The bytes of the file used before the current batch, and including it.
    before: u64,
    position: u64,
    next_row: u64,
}

impl RowReader {
    /// Reads batches until the last, or until one fails.
    pub(crate) fn start(
        path: &Arc<Path>,
        mut next: impl FnMut() -> Option<ReadBatch> + Send + 'static,
    ) -> Result<Self> {
        let mut failed = false;
        let batches = BackgroundIterator::start(BATCHES_AHEAD, move || {
            let batch = if failed { None } else { next() };
            failed = matches!(batch, Some(Err(_)));
            batch
        });
        let batches = batches.map_err(Error::io(&**path))?;
        Ok(Self { batches, batch: None, before: 0, position: 0, next_row: 1 })
    }
}

impl BlockReader for RowReader {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        loop {
            control.tick()?;
            if let Some(part) = self.batch.as_mut().and_then(BatchSlices::next_part) {
                let first_row = self.next_row;
                self.next_row += part.num_rows() as u64;
                return Ok(Some(BlockContent::Rows { first_row, batch: part }));
            }
            match self.batches.next() {
                None => {
                    self.batch = None;
                    return Ok(None);
                }
                Some(Ok((batch, position))) => {
                    (self.before, self.position) = (self.position, position);
                    self.batch = Some(BatchSlices::new(batch));
                }
                Some(Err(message)) => {
                    self.batch = None;
                    let line = self.next_row;
                    return Ok(Some(BlockContent::Broken {
                        line,
                        reason: Reason::Damaged,
                        message,
                    }));
                }
            }
        }
    }

    fn position(&self) -> u64 {
        let Some(BatchSlices { batch, taken }) = &self.batch else { return self.position };
        let part = u128::from(self.position - self.before) * (*taken as u128)
            / (batch.num_rows().max(1) as u128);
        self.before + u64::try_from(part).unwrap_or(0)
    }
}
