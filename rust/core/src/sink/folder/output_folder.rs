//! [`OutputFolder`]: an output folder that one run writes to, shard after shard.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use chrono::NaiveDateTime;
use serde_json::Value;

use super::lock::{Lock, WorkFiles};
use super::output_survey;
use super::own_files::OwnFiles;
use super::renamed_files::RenamedFiles;
use crate::config::identity::Identity;
use crate::config::{RowEncoding, Split};
use crate::error::{Error, Result};
use crate::report::timing::Stages;
use crate::sink::Sink;
use crate::sink::bucket::uploads::Uploads;
use crate::sink::file_names::{BEGUN, BLOCKS};
use crate::sink::formats::cells::ColumnNumbers;
use crate::sink::manifest::WrittenShard;
use crate::sink::shards::begun_shards;
use crate::sink::shards::finished_list::FinishedList;
use crate::sink::shards::folder_layout::FolderLayout;
use crate::sink::shards::row_threads::RowThreads;
use crate::sink::shards::shard::Shard;
use crate::sink::shards::shard_names::{ShardSeries, is_of_input};
use crate::sink::shards::shard_size::ShardSize;
use crate::sink::shards::shards_in_order::ShardsInOrder;
use crate::sink::shared_failure::SharedFailure;
use crate::util::control::Control;
use crate::util::disk::removal::remove_empty;
use crate::util::thread_pool::TaskQueue;

/// An output folder that only this run writes to.
///
/// If it is dropped before [`OutputFolder::finish`] has succeeded, the next run of the job resumes from the files left in it,
/// unless [`OutputFolder::fail`] has removed them.
pub struct OutputFolder {
    pub(super) dir: PathBuf,
    /// True if this run made the folder, and removes it if it fails.
    pub(super) created: bool,
    /// True if no other run can resume from the files of this one.
    pub(super) cannot_resume: bool,
    pub(super) job: Arc<Identity>,
    pub(super) recipe: Option<String>,
    pub(super) now: NaiveDateTime,
    pub(super) coding: RowEncoding,
    /// The size of the current shard.
    pub(super) size: ShardSize,
    pub(super) arrangement: FolderLayout,
    /// The series of the current shards.
    pub(super) series: Box<ShardSeries>,
    /// The shards that are not finished.
    pub(super) open: ShardsInOrder,
    pub(super) threads: RowThreads,
    /// The time that shards took, of those finished since the last [`OutputFolder::settle`].
    pub(super) spent: Stages,
    /// The finished shards.
    pub(super) files: Vec<WrittenShard>,
    /// The names of finished shards that lie in the bucket in which the output will lie, by their names in the work folder.
    pub(super) uploaded_names: HashMap<String, String>,
    /// The names of finished shards whose hash was compared when they were taken over from elsewhere, or that stay what they are.
    pub(super) adopted: HashSet<String>,
    /// The rows of the output to which this job appends.
    pub(super) earlier_rows: u64,
    /// The name of the job whose output, beside this one, this one will replace.
    pub(crate) replaced: Option<String>,
    pub(super) counts: Option<Value>,
    pub(super) list: FinishedList,
    /// The receiver of finished shards, if they are uploaded.
    pub(super) uploads: Option<Arc<Uploads>>,
    /// The output that this one replaces, and the files of others in the folder.
    pub(super) owned: OwnFiles,
    pub(super) placed: RenamedFiles,
    /// The lock, held until the end of the run.
    pub(super) lock: Option<Lock>,
    /// It is cancelled when the run is.
    pub(super) control: Control,
}

impl OutputFolder {
    /// Fails with [`Error::Output`] if other files are in the place of shards that are named after `stems`.
    pub fn reserve(&self, stems: &[String]) -> Result<()> {
        let is_taken =
            |name: &&String| stems.iter().any(|stem| is_of_input(stem, name, self.coding.format));
        let taken: Vec<String> = self.owned.others.iter().filter(is_taken).cloned().collect();
        output_survey::refuse_in_the_way(&self.dir, &taken)
    }

    /// The path of the log of blocks.
    pub fn blocks(&self) -> PathBuf {
        self.work().join(BLOCKS)
    }

    /// The date and time that templates see: the start of the first run of this job.
    pub fn now(&self) -> NaiveDateTime {
        self.now
    }

    /// Ends the current series of shards, and starts that of shards named after `stem`, after those that are
    /// whole. Returns the rows of the whole ones.
    pub fn begin(&mut self, stem: String) -> Result<u64> {
        self.end_series()?;
        let behind = match &*self.series {
            ShardSeries::Split(_) => 0,
            ShardSeries::Input { behind, .. } => behind + self.in_series(),
        };
        *self.series = ShardSeries::Input { stem, behind };
        Ok(self.files[behind..][..self.in_series()].iter().map(|file| file.rows).sum())
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        while let Some((file, spent)) = self.open.next_whole()? {
            self.spent += spent;
            self.list_finished(file)?;
        }
        if !self.open.has_current() {
            let shard = self.create_shard(batch)?;
            self.open.begin(shard);
        }
        self.open.write(batch)
    }

    /// Creates the next shard, of rows like these. First it is known as this job's: unlisted shards up to the next number are.
    fn create_shard(&self, batch: &RecordBatch) -> Result<Shard> {
        if let ShardSeries::Split(_) = *self.series {
            self.list.sync()?;
        }
        let work = self.work();
        if self.open.ended() > 0 {
            let number = self.files.len() + self.open.ended();
            let new = begun_shards::write(number, work)?;
            self.files_of_work().rename_into(&new, BEGUN)?;
        }
        let path = work.join(self.next_shard());
        Shard::create(&path, self.coding, &batch.schema(), &self.threads)
    }

    /// Ends the current shard. Threads write the rest of it meanwhile.
    fn end_shard(&mut self) -> Result<()> {
        let name = self.next_shard();
        self.size.begin();
        self.open.end(name)
    }

    /// Ends the current shard, and waits for all.
    pub(super) fn end_series(&mut self) -> Result<()> {
        self.end_shard()?;
        self.wait_for_ended()
    }

    /// Waits for the shards that have ended.
    fn wait_for_ended(&mut self) -> Result<()> {
        while let Some((file, spent)) = self.open.wait_for_next()? {
            self.spent += spent;
            self.list_finished(file)?;
        }
        Ok(())
    }

    /// The name of the current shard, or of the next one.
    fn next_shard(&self) -> String {
        self.series.name(self.in_series() + self.open.ended(), self.coding.format)
    }

    /// The number of finished shards of the current series.
    pub(super) fn in_series(&self) -> usize {
        self.series.whole(&self.files, self.coding.format)
    }

    /// Ends a failed run: tells the runs that wait for it, and removes its files unless the next run can
    /// resume from them.
    pub fn fail(&mut self, error: &Error) {
        if let (Some(failure), Some(lock), false) =
            (SharedFailure::of(error), &mut self.lock, self.cannot_resume)
        {
            lock.publish_failure(self.job.name(), failure);
        }
        if self.cannot_resume || !error.may_pass() {
            self.open = ShardsInOrder::default();
            self.threads.end();
            self.placed.move_back();
            let _ = self.clear(|_| false);
        }
    }

    /// Removes all files of this job from the work folder except those that `kept` accepts by name.
    pub(super) fn clear(&self, kept: impl Fn(&str) -> bool) -> Result<()> {
        self.lock().clear(&self.job, kept)
    }

    /// The files of this job in the work folder.
    pub(super) fn files_of_work(&self) -> WorkFiles<'_> {
        self.lock().files(&self.job)
    }

    pub(super) fn work(&self) -> &Path {
        self.lock().work()
    }

    pub(super) fn lock(&self) -> &Lock {
        self.lock.as_ref().expect("the lock is kept until the folder is dropped")
    }
}

impl Sink for OutputFolder {
    fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum::<u64>() - self.earlier_rows
    }

    /// Ends the current series of shards.
    fn begin_split(&mut self, split: Split) -> Result<()> {
        self.end_series()?;
        *self.series = ShardSeries::Split(split);
        Ok(())
    }

    fn use_threads(&mut self, threads: NonZeroUsize, bytes: u64) -> Option<TaskQueue> {
        self.threads.limit(threads, bytes);
        Some(self.threads.queue().clone())
    }

    /// Writes to the current shard, and starts another when it is full.
    ///
    /// The shard of a row depends on the rows alone: a batch is cut where a shard is full.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        // An empty batch becomes a shard only if there is no other.
        if batch.num_rows() == 0 && self.in_series() + self.open.ended() > 0 {
            return Ok(());
        }
        let columns: Vec<ColumnNumbers<'_>> =
            batch.columns().iter().map(ColumnNumbers::of).collect();
        let mut start = 0;
        for row in 0..batch.num_rows() {
            if self.size.is_full() {
                self.append(&batch.slice(start, row - start))?;
                self.end_shard()?;
                start = row;
            }
            self.size.add_row(&columns, row);
        }
        self.append(&batch.slice(start, batch.num_rows() - start))
    }

    fn keep_counts(&mut self, counts: Value) {
        self.counts = Some(counts);
    }

    fn settle(&mut self) -> Result<Stages> {
        self.spent += self.open.settle()?;
        self.wait_for_ended()?;
        Ok(std::mem::take(&mut self.spent))
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        // A failure has nobody to be reported to. Unfinished shards are removed by the next run.
        self.open = ShardsInOrder::default();
        self.threads.end();
        self.placed.move_back();
        self.lock = None;
        if self.created {
            // This removes the folder only if it is empty.
            let _ = remove_empty(&self.dir);
        }
    }
}

impl fmt::Debug for OutputFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFolder")
            .field("dir", &self.dir)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
