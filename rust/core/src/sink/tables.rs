//! [`Tables`]: rows that stay in memory, those of each split by themselves.

use arrow::record_batch::RecordBatch;

use super::Sink;
use crate::config::Split;
use crate::error::Result;

/// Rows that stay in memory, in batches.
#[derive(Debug, Default)]
pub struct Tables {
    /// The rows to train on.
    pub train: Vec<RecordBatch>,
    /// The rows that are set aside, if documents are.
    pub validation: Option<Vec<RecordBatch>>,
    split: Option<Split>,
}

impl Sink for Tables {
    fn rows(&self) -> u64 {
        0
    }

    fn begin_split(&mut self, split: Split) -> Result<()> {
        self.split = Some(split);
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batches = match self.split {
            Some(Split::Validation) => self.validation.get_or_insert_default(),
            Some(Split::Train) | None => &mut self.train,
        };
        batches.push(batch.clone());
        Ok(())
    }
}
