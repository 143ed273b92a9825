//! [`Folder`]: an output folder from the first batch to the manifest.

mod checks_before_publishing;
pub(super) mod leftovers;
pub(super) mod lock;
pub(super) mod output_survey;
pub(super) mod own_files;
pub(super) mod renamed_files;
pub(super) mod replace_outputs;
mod resumed_files;
mod taken_over_shards;
mod uploading;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use chrono::NaiveDateTime;
use serde_json::Value;

use self::leftovers::Leftovers;
use self::lock::{Lock, WorkFiles};
use self::own_files::OwnFiles;
use self::renamed_files::{RenamedFiles, flat, sync, write};
use super::Sink;
use super::bucket::uploads::Uploads;
use super::file_names::{BLOCKS, MANIFEST, MANIFEST_NEW, REPORT, TOKENS, WORK, is_shard_of};
use super::formats::cells::ColumnNumbers;
use super::groups::group_files;
use super::manifest::{File, Manifest, MetadataFile, TokensFile};
use super::shards::arrangement::Arrangement;
use super::shards::finished_list::FinishedList;
use super::shards::shard::Shard;
use super::shards::shard_names::{Series, is_of_input};
use super::shards::threads::RowThreads;
use super::shared_failure::SharedFailure;
use crate::config::identity::Identity;
use crate::config::{Coding, Output, Split};
use crate::error::{Error, Result};
use crate::report::listed_path::ListedPath;
use crate::report::timing::Stages;
use crate::util::control::Control;
use crate::util::disk::hex_hash::HexHash;
use crate::util::disk::regular;
use crate::util::disk::removal::remove_empty;

/// An output folder that only this run writes to.
///
/// If it is dropped before [`Folder::finish`] has succeeded, the next run of the job resumes from the files left in it,
/// unless [`Folder::fail`] has removed them.
pub struct Folder {
    dir: PathBuf,
    /// True if this run made the folder, and removes it if it fails.
    created: bool,
    /// True if no other run can resume from the files of this one.
    cannot_resume: bool,
    job: Arc<Identity>,
    recipe: Option<String>,
    now: NaiveDateTime,
    coding: Coding,
    shard_bytes: u64,
    arrangement: Arrangement,
    /// The series of the current shards.
    series: Box<Series>,
    shard: Option<Box<Shard>>,
    /// Bytes of column data in the current shard.
    bytes: u64,
    threads: RowThreads,
    /// The time that shards took, of those finished since the last [`Folder::settle`].
    spent: Stages,
    /// The finished shards.
    files: Vec<File>,
    /// The names of finished shards that lie in the bucket in which the output will lie, by their names in the work folder.
    elsewhere: HashMap<String, String>,
    /// The names of finished shards whose hash was compared when they were taken over from elsewhere, or that stay what they are.
    adopted: HashSet<String>,
    /// The rows of the output to which this job appends.
    earlier_rows: u64,
    counts: Option<Value>,
    list: FinishedList,
    /// The receiver of finished shards, if they are uploaded.
    uploads: Option<Arc<Uploads>>,
    /// The output that this one replaces, and the files of others in the folder.
    owned: OwnFiles,
    placed: RenamedFiles,
    /// The lock, held until the end of the run.
    lock: Option<Lock>,
    /// It is cancelled when the run is.
    control: Control,
}

/// Takes over the files of an unfinished run in a folder that is locked, or begins the job there.
pub(super) fn prepare(
    output: &Output,
    job: &Arc<Identity>,
    now: NaiveDateTime,
    (lock, created): (Lock, bool),
    control: &Control,
) -> Result<Folder> {
    let (dir, name) = (&output.dir, job.name());
    let left = Leftovers::find(dir)?;
    let arrangement = Arrangement::of(output);
    if !output.overwrite {
        output_survey::refuse_other_jobs(dir, job, &left)?;
    }
    let (remains, mut owned) = left.owned(dir, control)?;
    group_files::remove_changed(dir, &mut owned.others);
    if output.overwrite {
        let others = owned.others.iter();
        let in_the_way =
            others.filter(|name| output_survey::is_in_the_way(name, arrangement)).cloned();
        output_survey::refuse_in_the_way(dir, &in_the_way.collect::<Vec<_>>())?;
    } else {
        output_survey::refuse_all(dir, &owned.others, arrangement)?;
    }
    let mut folder = Folder {
        dir: dir.clone(),
        created,
        cannot_resume: output.cannot_resume,
        job: Arc::clone(job),
        recipe: output.recipe.clone(),
        now,
        coding: output.coding,
        shard_bytes: output.shard_bytes.max(1),
        arrangement,
        series: Box::new(Series::Split(Split::Train)),
        shard: None,
        bytes: 0,
        threads: RowThreads::new(control),
        spent: Stages::default(),
        files: Vec::new(),
        elsewhere: HashMap::new(),
        adopted: HashSet::new(),
        earlier_rows: 0,
        counts: None,
        list: FinishedList::new(lock.work(), &name),
        uploads: None,
        owned,
        placed: RenamedFiles::default(),
        lock: Some(lock),
        control: control.with_same_flag(),
    };
    let is_mine = |it: &&Manifest| !output.cannot_resume && it.job.differences(job).is_none();
    match left.started.as_ref().filter(is_mine) {
        Some(started) => folder.resume(started.now, &left, remains, &name, control)?,
        None => folder.start(&left, remains)?,
    }
    Ok(folder)
}

/// Removes a leftover work folder from a finished folder, if the run that finished it was killed at the very
/// end.
pub(super) fn tidy(dir: &Path, control: &Control) {
    // It does no harm where it has to stay.
    if regular::is_folder(&dir.join(WORK))
        && let Ok((lock, _)) = Lock::take(dir, None, false, control)
        && let Ok(Leftovers { started: Some(started), .. }) = Leftovers::find(dir)
    {
        group_files::remove(lock.work());
        let _ = lock.clear(&started.job, |_| false);
    }
}

impl Folder {
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

    /// Ends the current shard, and starts the series of shards named after `stem`, after those that are
    /// whole. Returns the rows of the whole ones.
    pub fn begin(&mut self, stem: String) -> Result<u64> {
        self.close_shard()?;
        let behind = match &*self.series {
            Series::Split(_) => 0,
            Series::Input { behind, .. } => behind + self.in_series(),
        };
        *self.series = Series::Input { stem, behind };
        Ok(self.files[behind..][..self.in_series()].iter().map(|file| file.rows).sum())
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut shard = if let Some(shard) = self.shard.take() {
            shard
        } else {
            if let Series::Split(_) = *self.series {
                // Unlisted shards up to the next number are known as this job's.
                self.list.sync()?;
            }
            let path = self.work().join(self.next_shard());
            Box::new(Shard::create(&path, self.coding, &batch.schema(), &self.threads)?)
        };
        shard.write(batch)?;
        self.shard = Some(shard);
        Ok(())
    }

    fn close_shard(&mut self) -> Result<()> {
        if let Some(shard) = self.shard.take() {
            let (file, spent) = shard.close(self.next_shard())?;
            self.spent += spent;
            self.list_finished(file)?;
        }
        Ok(())
    }

    /// The name of the current shard.
    fn next_shard(&self) -> String {
        self.series.name(self.in_series(), self.coding.format)
    }

    /// The number of finished shards of the current series.
    fn in_series(&self) -> usize {
        self.series.whole(&self.files, self.coding.format)
    }

    /// Compares the shards with the hashes that they were written with, and renames them into place, and the tokens if they are
    /// kept. Then writes `report.json`, and last
    /// the manifest with the hash of each input's content.
    ///
    /// # Panics
    ///
    /// If nothing was written and no tokens are kept. A job without rows writes an empty batch, which gives
    /// its one shard the schema.
    pub fn finish(
        &mut self,
        report: &str,
        content: BTreeMap<ListedPath, HexHash>,
        tokens: Option<TokensFile>,
    ) -> Result<()> {
        self.finish_with(report, content, tokens, Vec::new())
    }

    /// [`finish`](Self::finish) with further small files, by their names and contents.
    ///
    /// # Panics
    ///
    /// As `finish`.
    pub fn finish_with(
        &mut self,
        report: &str,
        content: BTreeMap<ListedPath, HexHash>,
        tokens: Option<TokensFile>,
        others: Vec<(String, Vec<u8>)>,
    ) -> Result<()> {
        self.close_shard()?;
        let wrote = !self.files.is_empty() || tokens.is_some();
        assert!(wrote, "a job writes at least one batch, if an empty one");
        self.refuse_changed(tokens.as_ref())?;
        if self.job.appended_to.is_some() {
            // Each split is read in the order of the list.
            let split =
                |file: &File| Split::ALL.into_iter().position(|it| is_shard_of(it, &file.name));
            self.files.sort_by_key(split);
        }
        let described = self.arrangement.describe(self.work(), &self.files)?;
        let described = described.into_iter().map(|(name, text)| (name, text.into_bytes()));
        let report = (REPORT.to_owned(), report.as_bytes().to_vec());
        let mut manifest =
            Manifest::new(Arc::clone(&self.job), self.now, self.arrangement.place(&self.files));
        manifest.recipe =
            self.recipe.as_deref().and_then(|recipe| serde_json::from_str(recipe).ok());
        manifest.content = content;
        manifest.counts = self.counts.take();
        manifest.tokens = tokens;
        for (name, content) in described.chain(others).chain([report]) {
            write(&self.work().join(flat(&name)), &content)?;
            manifest.metadata_files.push(MetadataFile::of(name, &content));
        }
        self.list.sync()?;
        let new = self.work().join(MANIFEST_NEW);
        manifest.write(&new)?;
        self.files_of_work().rename_into(&new, MANIFEST)?;
        // The record of the job must be on the disk before files are placed: it says whose they are.
        sync(self.work())?;

        // Everything is on the disk. From here to the last line, the folder holds no whole output.
        self.refuse_taken(&manifest)?;
        let work = self.work().to_owned();
        let Self { owned, lock, job, .. } = self;
        owned.remove(&lock.as_ref().expect("it is held").files(job))?;
        sync(&self.dir)?;
        let placed = self.files.iter().zip(&manifest.files);
        for (file, placed) in placed.filter(|(file, _)| !self.elsewhere.contains_key(&file.name)) {
            self.placed.place(work.join(&file.name), &self.dir, &placed.name)?;
        }
        if manifest.tokens.is_some() {
            self.placed.place(work.join(BLOCKS), &self.dir, TOKENS)?;
        }
        for MetadataFile { name, .. } in &manifest.metadata_files {
            self.placed.place(work.join(flat(name)), &self.dir, name)?;
        }
        self.placed.sync(&self.dir)?;
        self.placed.place(work.join(MANIFEST), &self.dir, MANIFEST)?;
        sync(&self.dir)?;
        self.placed.keep();
        self.created = false;
        group_files::remove(self.work());
        self.clear(|_| false)
    }

    /// Ends a failed run: tells the runs that wait for it, and removes its files unless the next run can
    /// resume from them.
    pub fn fail(&mut self, error: &Error) {
        if let (Some(failure), Some(lock), false) =
            (SharedFailure::of(error), &mut self.lock, self.cannot_resume)
        {
            lock.tell(self.job.name(), failure);
        }
        if self.cannot_resume || !error.may_pass() {
            self.shard = None;
            self.threads.end();
            self.placed.take_back();
            let _ = self.clear(|_| false);
        }
    }

    /// Removes all files of this job from the work folder except those that `kept` accepts by name.
    fn clear(&self, kept: impl Fn(&str) -> bool) -> Result<()> {
        self.lock().clear(&self.job, kept)
    }

    /// The files of this job in the work folder.
    fn files_of_work(&self) -> WorkFiles<'_> {
        self.lock().files(&self.job)
    }

    fn work(&self) -> &Path {
        self.lock().work()
    }

    fn lock(&self) -> &Lock {
        self.lock.as_ref().expect("the lock is kept until the folder is dropped")
    }
}

impl Sink for Folder {
    fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum::<u64>() - self.earlier_rows
    }

    /// Ends the current shard.
    fn begin_split(&mut self, split: Split) -> Result<()> {
        self.close_shard()?;
        *self.series = Series::Split(split);
        Ok(())
    }

    fn use_threads(&mut self, threads: NonZeroUsize, bytes: u64) {
        self.threads.limit(threads, bytes);
    }

    /// Writes to the current shard, and starts another when it is full.
    ///
    /// The shard of a row depends on the rows alone: a batch is cut where a shard is full.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        // An empty batch becomes a shard only if there is no other.
        if batch.num_rows() == 0 && self.in_series() > 0 {
            return Ok(());
        }
        let columns: Vec<ColumnNumbers<'_>> =
            batch.columns().iter().map(ColumnNumbers::of).collect();
        let mut start = 0;
        for row in 0..batch.num_rows() {
            if self.bytes >= self.shard_bytes {
                self.append(&batch.slice(start, row - start))?;
                self.close_shard()?;
                start = row;
            }
            self.bytes += columns.iter().map(|column| column.bytes(row)).sum::<u64>();
        }
        self.append(&batch.slice(start, batch.num_rows() - start))
    }

    fn keep_counts(&mut self, counts: Value) {
        self.counts = Some(counts);
    }

    fn settle(&mut self) -> Result<Stages> {
        if let Some(shard) = &mut self.shard {
            self.spent += shard.settle()?;
        }
        Ok(std::mem::take(&mut self.spent))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure has nobody to be reported to. The unfinished shard is removed, by the next run if it stays.
        self.shard = None;
        self.threads.end();
        self.placed.take_back();
        self.lock = None;
        if self.created {
            // This removes the folder only if it is empty.
            let _ = remove_empty(&self.dir);
        }
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("dir", &self.dir)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
