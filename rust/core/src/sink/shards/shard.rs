//! [`Shard`]: one file of rows, hashed as it is written, and [`EndedShard`], which takes no more of them.

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
    file: AwaitedFile,
    /// Rows that are handed over once others follow: the last ones may be encoded by the thread that ends the shard.
    last: Vec<RecordBatch>,
    /// The row group that is being filled, in a format that has some.
    groups: Option<RowGroups>,
    count: u64,
}

/// A file of rows that takes no more of them, and that threads write.
pub(crate) struct EndedShard {
    file: AwaitedFile,
    name: String,
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
        let file = AwaitedFile(ShardFile::begin(path, coding, schema, threads)?);
        let groups = (coding.format == Format::Parquet).then(RowGroups::default);
        Ok(Self { file, last: Vec::new(), groups, count: 0 })
    }

    /// A file whose rows are written as they are.
    #[cfg(test)]
    pub(super) fn of(file: Arc<ShardFile>) -> Self {
        Self { file: AwaitedFile(file), last: Vec::new(), groups: None, count: 0 }
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
        let Self { file: AwaitedFile(file), last, .. } = self;
        if !last.is_empty() {
            file.write(std::mem::take(last))?;
        }
        file.settle()?;
        Ok(file.take_spent())
    }

    /// Hands over the rest of the rows. Threads write it, under the name `name` in the manifest.
    pub(crate) fn end(mut self, name: String) -> Result<EndedShard> {
        let rest = self.groups.as_mut().map(RowGroups::rest).unwrap_or_default();
        if !rest.is_empty() {
            self.hand_over(rest)?;
        }
        let Self { file, last, count, .. } = self;
        file.0.end(last, count)?;
        Ok(EndedShard { file, name, count })
    }

    fn hand_over(&mut self, unit: Vec<RecordBatch>) -> Result<()> {
        let before = std::mem::replace(&mut self.last, unit);
        if before.is_empty() { Ok(()) } else { self.file.0.write(before) }
    }
}

impl EndedShard {
    /// True if waiting for it takes no time.
    pub(crate) fn is_done(&self) -> bool {
        self.file.0.has_ended()
    }

    /// Waits until the file lies on the disk. Returns its entry in the manifest, and the time that writing it took on all threads.
    pub(crate) fn wait(self) -> Result<(WrittenShard, Stages)> {
        let Self { file, name, count: rows } = self;
        let (bytes, hash) = file.0.wait_for_end()?;
        let blake3 = hash.whole.to_hex().to_string();
        let shard = WrittenShard { name, rows, bytes, blake3, parts: hash.parts };
        Ok((shard, file.0.take_spent()))
    }
}

/// A file that somebody waits for. It is given up when this is dropped.
struct AwaitedFile(Arc<ShardFile>);

impl Drop for AwaitedFile {
    fn drop(&mut self) {
        self.0.stop();
    }
}
