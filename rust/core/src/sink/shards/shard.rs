//! [`Shard`]: one file of rows, hashed as it is written.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use super::row_threads::RowThreads;
use super::shard_file::ShardFile;
use crate::config::{Format, RowEncoding};
use crate::error::Result;
use crate::report::timing::Stages;
use crate::sink::formats::RowGroups;
use crate::sink::manifest::WrittenShard;

/// A file of rows that is being written.
pub(crate) struct Shard {
    file: Arc<ShardFile>,
    /// Rows that are handed over once others follow: the last ones are encoded by the thread that closes the shard.
    last: Vec<RecordBatch>,
    /// The row group that is being filled, in a format that has some.
    groups: Option<RowGroups>,
    count: u64,
}

impl Shard {
    /// Creates the file at `path`, where there must be none.
    pub(crate) fn create(
        path: &Path,
        coding: RowEncoding,
        schema: &SchemaRef,
        threads: &RowThreads,
    ) -> Result<Self> {
        let file = ShardFile::begin(path, coding, schema, threads)?;
        let groups = (coding.format == Format::Parquet).then(RowGroups::default);
        Ok(Self { file, last: Vec::new(), groups, count: 0 })
    }

    /// A file whose rows are written as they are.
    #[cfg(test)]
    pub(super) fn of(file: Arc<ShardFile>) -> Self {
        Self { file, last: Vec::new(), groups: None, count: 0 }
    }

    /// Appends rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.count += batch.num_rows() as u64;
        let units = match &mut self.groups {
            Some(groups) => groups.add(batch),
            None if batch.num_rows() > 0 => vec![vec![batch.clone()]],
            None => Vec::new(),
        };
        units.into_iter().try_for_each(|unit| self.hand_over(unit))
    }

    /// Waits until all units of rows that are complete are encoded, and full pieces written.
    pub(crate) fn settle(&mut self) -> Result<Stages> {
        if !self.last.is_empty() {
            self.file.write(std::mem::take(&mut self.last))?;
        }
        self.file.settle()?;
        Ok(self.file.take_spent())
    }

    /// Writes the rest to the disk, and returns the manifest entry of the file under the name `name`, and the time that encoding
    /// took.
    pub(crate) fn close(mut self, name: String) -> Result<(WrittenShard, Stages)> {
        let rest = self.groups.as_mut().map(RowGroups::rest).unwrap_or_default();
        if !rest.is_empty() {
            self.hand_over(rest)?;
        }
        let (bytes, hash) = self.file.finish(std::mem::take(&mut self.last), self.count)?;
        let blake3 = hash.whole.to_hex().to_string();
        let file = WrittenShard { name, rows: self.count, bytes, blake3, parts: hash.parts };
        Ok((file, self.file.take_spent()))
    }

    fn hand_over(&mut self, unit: Vec<RecordBatch>) -> Result<()> {
        let before = std::mem::replace(&mut self.last, unit);
        if before.is_empty() { Ok(()) } else { self.file.write(before) }
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.file.stop();
    }
}
