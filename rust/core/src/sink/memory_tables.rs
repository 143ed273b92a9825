//! [`MemoryTables`]: rows that stay in memory, one table for each split.

use std::num::NonZeroUsize;

use arrow::record_batch::RecordBatch;
use serde_json::Value;

use super::Sink;
use crate::config::Split;
use crate::error::{Error, Result};
use crate::report::timing::Stages;
use crate::util::free_memory;
use crate::util::free_memory::ShownBytes;
use crate::util::thread_pool::TaskQueue;

/// Bytes of rows between two checks of the memory that is left.
const STEP: u64 = 64 << 20;

/// Rows that stay in memory, in batches.
#[derive(Debug, Default)]
pub struct MemoryTables {
    /// The rows of `train`.
    pub train: Vec<RecordBatch>,
    /// The rows of `validation`, if documents are set aside.
    pub validation: Option<Vec<RecordBatch>>,
    split: Option<Split>,
    /// Bytes of all rows, and the number at which the free memory is checked next.
    bytes: u64,
    next_look: u64,
}

impl Sink for MemoryTables {
    fn rows(&self) -> u64 {
        0
    }

    fn begin_split(&mut self, split: Split) -> Result<()> {
        self.split = Some(split);
        Ok(())
    }

    /// Does nothing: rows stay as they are.
    fn use_threads(&mut self, _threads: NonZeroUsize, _bytes: u64) -> Option<TaskQueue> {
        None
    }

    /// Keeps the rows. Fails with [`Error::Option`] before memory runs out.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.bytes += batch.get_array_memory_size() as u64;
        if self.bytes > self.next_look {
            self.next_look = self.bytes + STEP;
            if free_memory::left().is_some_and(|left| left < 2 * STEP) {
                let reason = format!(
                    "are so many that the rows take {} of memory so far, and nothing is left; pack them into a folder: \
                     `pack_dir`, or `output=` of `pack_records` and `pack_table`",
                    ShownBytes(self.bytes)
                );
                return Err(Error::option("files", reason));
            }
        }
        let batches = match self.split {
            Some(Split::Validation) => self.validation.get_or_insert_default(),
            Some(Split::Train) | None => &mut self.train,
        };
        batches.push(batch.clone());
        Ok(())
    }

    /// Does nothing: only folders can be appended to.
    fn keep_counts(&mut self, _counts: Value) {}

    fn settle(&mut self) -> Result<Stages> {
        Ok(Stages::default())
    }
}
