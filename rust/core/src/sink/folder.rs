//! [`Folder`]: an output folder from the first batch to the manifest.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use arrow::record_batch::RecordBatch;
use chrono::NaiveDateTime;
use serde_json::Value;

use super::Sink;
use super::arrangement::Arrangement;
use super::cells::Column;
use super::failure::Failure;
use super::lock::{Lock, WORK};
use super::manifest::{File, MANIFEST, Manifest, Tokens};
use super::placed::{Placed, flat, remove_folder_of, sync, write};
use super::shard::Shard;
use super::shard_list::ShardList;
use super::survey::{self, BLOCKS, REPORT, STARTED, TOKENS, is_ours, is_shard_of, shard_name};
use crate::config::{Coding, Output, Split};
use crate::control::Control;
use crate::error::{Error, Result};

/// An output folder that this run alone writes to.
///
/// What is left when it is dropped before [`Folder::finish`] has succeeded is where the next run of the job goes on,
/// unless [`Folder::fail`] has taken it back.
pub struct Folder {
    dir: PathBuf,
    /// Whether the folder was not there before, and goes if the run fails.
    created: bool,
    /// Whether no other run can go on with what this leaves behind.
    once: bool,
    job: Value,
    now: NaiveDateTime,
    coding: Coding,
    shard_bytes: u64,
    arrangement: Arrangement,
    /// What the shards at hand are named after.
    series: Box<Series>,
    shard: Option<Box<Shard>>,
    /// Column data in the shard at hand.
    bytes: u64,
    /// Shards that are whole.
    files: Vec<File>,
    /// The tokens, once they are about to be placed.
    tokens: Option<Tokens>,
    /// The files that describe the shards, once they are about to be placed.
    beside: Vec<String>,
    placed: Placed,
    /// Taken until the very end.
    lock: Option<Lock>,
}

/// What shards are named after.
enum Series {
    /// A split.
    Split(Split),
    /// An input that has its own, behind so many of others.
    Input { stem: String, behind: usize },
}

/// What a folder holds before a run.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one a run")]
pub enum Opened {
    /// Nothing in the way: write.
    Ready(Folder),
    /// The very job has finished here before; its `report.json`.
    Finished(String),
}

/// Opens the output folder for the job whose identity is `job` (a JSON object), and makes it if need be.
///
/// What a run of the same job left behind that did not end is taken over. With `overwrite`, the job runs even if it
/// has finished here before, and what fastpack wrote for whatever job (shards, by their names, and the
/// report and manifest) is replaced once the new output is whole; other files stay as they are, and until
/// then a run that fails has touched nothing. Where several ranks share the job, it is run once for all.
///
/// Fails with [`Error::Output`] while another run writes to the folder and this is not to wait, and, without
/// `overwrite`, if it holds anything else than the output or the leftovers of this very job; with [`Error::Io`] if
/// it cannot be read or written; and as the run of the same job that it waited for.
pub fn open(output: &Output, job: &Value, now: NaiveDateTime, control: &Control) -> Result<Opened> {
    let dir = &output.dir;
    if dir.as_os_str().is_empty() {
        return Err(Error::option("output", "must name a folder"));
    }
    // A link that leads nowhere is there, but is no folder.
    let created = dir.symlink_metadata().is_err();
    if !created && !dir.is_dir() {
        return Err(Error::io(dir)(io::Error::from(ErrorKind::NotADirectory)));
    }
    let again = output.overwrite && !output.shared;
    // Without a lock: a finished folder may be read-only.
    if !created
        && !again
        && !output.once
        && let Some(report) = survey::finished(dir, job)?
    {
        tidy(dir, control);
        return Ok(Opened::Finished(report));
    }
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let name = (!output.once).then(|| name_of(job));
    let (lock, waited) = Lock::take(dir, name.as_deref(), output.wait, control)?;
    // Again: the run that had the lock may have finished this job, and to overwrite that would be to do it twice.
    if (waited || !again)
        && !output.once
        && let Some(report) = survey::finished(dir, job)?
    {
        return Ok(Opened::Finished(report));
    }
    if !output.overwrite {
        survey::refuse_others(dir, job, Arrangement::of(output))?;
    }
    let mut folder = Folder {
        dir: dir.clone(),
        created,
        once: output.once,
        job: job.clone(),
        now,
        coding: output.coding,
        shard_bytes: output.shard_bytes.max(1),
        arrangement: Arrangement::of(output),
        series: Box::new(Series::Split(Split::Train)),
        shard: None,
        bytes: 0,
        files: Vec::new(),
        tokens: None,
        beside: Vec::new(),
        placed: Placed::default(),
        lock: Some(lock),
    };
    match survey::started(dir, job)? {
        Some(left) => folder.go_on(left)?,
        None => folder.start()?,
    }
    if output.once {
        // What was left is all in the work folder by now, and whether it is of the same records cannot be told.
        folder.now = now;
        folder.files.clear();
        folder.start()?;
    }
    if !output.overwrite {
        folder.remove_old()?;
    }
    Ok(Opened::Ready(folder))
}

/// A short name of a job.
fn name_of(job: &Value) -> String {
    blake3::hash(job.to_string().as_bytes()).to_hex().to_string()
}

/// Removes what is left of a work folder in a finished folder, if the run that finished it was killed at the very end.
fn tidy(dir: &Path, control: &Control) {
    // It is in nobody's way where it has to stay.
    if dir.join(WORK).exists()
        && let Ok((lock, _)) = Lock::take(dir, None, false, control)
    {
        let _ = lock.clear(|_| false);
    }
}

impl Folder {
    /// Clears what another job left in the work folder, then leaves word of which job is running, for whoever finds
    /// its leftovers: in this order, so that never are those of one job taken for another's.
    fn start(&self) -> Result<()> {
        self.lock().clear(|name| name == STARTED)?;
        self.leave_word()
    }

    /// Takes over what a run of this job left behind.
    fn go_on(&mut self, left: Manifest) -> Result<()> {
        self.now = left.now;
        // It may have been about to place its files: they go back to where a failure leaves them.
        let placed = self.arrangement.place(&left.files);
        for (file, placed) in left.files.into_iter().zip(placed) {
            let is_whole = |path: &Path| path.metadata().is_ok_and(|it| it.len() == file.bytes);
            self.fetch(&file.name, &placed.name, is_whole)?;
            if !is_whole(&self.work().join(&file.name)) {
                break;
            }
            self.files.push(file);
        }
        for name in &left.beside {
            self.fetch(&flat(name), name, Path::exists)?;
        }
        if left.tokens.is_some() {
            self.fetch(BLOCKS, TOKENS, Path::exists)?;
        }
        let kept: HashSet<&str> = self.files.iter().map(|file| file.name.as_str()).collect();
        let stays = |name: &str| [STARTED, BLOCKS].contains(&name) || kept.contains(name);
        self.lock().clear(stays)?;
        ShardList::of(self.work()).write(&self.files)
    }

    /// Moves a file that `is_whole` back from where it was placed, unless such a one is in the work folder.
    fn fetch(&self, work: &str, place: &str, is_whole: impl Fn(&Path) -> bool) -> Result<()> {
        let (work, place) = (self.work().join(work), self.dir.join(place));
        if !is_whole(&work) && is_whole(&place) {
            fs::rename(&place, &work).map_err(Error::io(&place))?;
            remove_folder_of(&place);
        }
        Ok(())
    }

    /// Writes down which job this is, and what is about to be placed beside the shards.
    fn leave_word(&self) -> Result<()> {
        let beside = self.work().join("started.json.new");
        let started = self.work().join(STARTED);
        let mut manifest = Manifest::new(self.job.clone(), self.now, Vec::new());
        manifest.tokens.clone_from(&self.tokens);
        manifest.beside.clone_from(&self.beside);
        write(&beside, &manifest.to_json())?;
        fs::rename(&beside, &started).map_err(Error::io(started))?;
        sync(self.work())
    }

    /// The file in which to keep what blocks came to.
    pub fn blocks(&self) -> PathBuf {
        self.work().join(BLOCKS)
    }

    /// What templates see as the time of day: that of the first run of this job.
    pub fn now(&self) -> NaiveDateTime {
        self.now
    }

    /// Ends the shard at hand. Those from now on are named after `stem`, behind what is whole of them; returns how many
    /// rows that is.
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
            let path = self.work().join(self.next_shard());
            Box::new(Shard::create(path, self.coding, &batch.schema())?)
        };
        shard.write(batch)?;
        self.shard = Some(shard);
        Ok(())
    }

    fn close_shard(&mut self) -> Result<()> {
        if let Some(shard) = self.shard.take() {
            let file = shard.close(self.next_shard())?;
            ShardList::of(self.work()).add(&file)?;
            self.files.push(file);
            self.bytes = 0;
        }
        Ok(())
    }

    fn next_shard(&self) -> String {
        self.name(self.in_series())
    }

    /// The name of a shard of the series at hand.
    fn name(&self, number: usize) -> String {
        let extension = self.coding.format.extension();
        match &*self.series {
            Series::Split(split) => shard_name(*split, number, extension),
            Series::Input { stem, .. } if number == 0 => format!("{stem}.{extension}"),
            Series::Input { stem, .. } => format!("{stem}-{number:05}.{extension}"),
        }
    }

    /// How many shards of the series at hand are whole.
    fn in_series(&self) -> usize {
        match &*self.series {
            Series::Split(split) => {
                self.files.iter().filter(|file| is_shard_of(*split, &file.name)).count()
            }
            Series::Input { behind, .. } => {
                let numbered = self.files[*behind..].iter().zip(0..);
                numbered.take_while(|(file, number)| file.name == self.name(*number)).count()
            }
        }
    }

    /// Renames the shards into place, and the tokens if there are to be kept, then writes `report.json`, then the
    /// manifest with the hash of each input's content.
    ///
    /// # Panics
    ///
    /// If nothing was written, nor are tokens kept. A job without rows writes an empty batch, from which its one
    /// shard has the schema.
    pub fn finish(
        &mut self,
        report: &str,
        content: BTreeMap<String, String>,
        tokens: Option<Tokens>,
    ) -> Result<()> {
        self.close_shard()?;
        let wrote = !self.files.is_empty() || tokens.is_some();
        assert!(wrote, "a job writes at least one batch, if an empty one");
        write(&self.work().join(REPORT), report)?;
        for (name, text) in self.arrangement.describe(self.work(), &self.files)? {
            write(&self.work().join(flat(&name)), &text)?;
            self.beside.push(name);
        }
        let placed = self.arrangement.place(&self.files);
        let mut manifest = Manifest::new(self.job.clone(), self.now, placed);
        manifest.content = content;
        manifest.tokens.clone_from(&tokens);
        manifest.beside.clone_from(&self.beside);
        write(&self.work().join(MANIFEST), &manifest.to_json())?;
        sync(self.work())?;
        // Whoever finds files in place that could be others' knows whose they are.
        self.tokens = tokens;
        ShardList::of(self.work()).sync()?;
        self.leave_word()?;

        // All is written and on the disk. Between here and the last line, the folder is nobody's output.
        self.remove_old()?;
        sync(&self.dir)?;
        for (file, placed) in self.files.clone().iter().zip(&manifest.files) {
            self.place(&file.name, &placed.name)?;
        }
        for name in &manifest.beside {
            self.place(&flat(name), name)?;
        }
        if manifest.tokens.is_some() {
            self.place(BLOCKS, TOKENS)?;
        }
        self.place(REPORT, REPORT)?;
        self.placed.sync(&self.dir)?;
        self.place(MANIFEST, MANIFEST)?;
        sync(&self.dir)?;
        self.placed.keep();
        self.created = false;
        self.lock().clear(|_| false)
    }

    /// Ends a run that failed: tells those that wait for it, and takes back what it wrote unless the next can go on
    /// from there.
    pub fn fail(&mut self, error: &Error) {
        if let (Some(failure), Some(lock), false) = (Failure::of(error), &mut self.lock, self.once)
        {
            lock.tell(name_of(&self.job), failure);
        }
        if self.once || !error.may_pass() {
            self.shard = None;
            self.placed.take_back();
            let _ = self.lock().clear(|_| false);
        }
    }

    /// Moves a whole file from the work folder to where it belongs.
    fn place(&mut self, from: &str, to: &str) -> Result<()> {
        let (work, place) = (self.work().join(from), self.dir.join(to));
        self.placed.place(work, place)
    }

    /// Removes what earlier runs wrote, the manifest first: without it, nobody takes the others for whole.
    fn remove_old(&self) -> Result<()> {
        let names = survey::names(&self.dir)?;
        let known = Manifest::read(&self.dir.join(MANIFEST))?;
        let known: HashSet<String> = known.map_or_else(HashSet::new, Manifest::into_names);
        let manifest = names.iter().filter(|name| *name == MANIFEST);
        let is_ours = |name: &String| is_ours(name) || known.contains(name);
        let others = names.iter().filter(|name| is_ours(name) && *name != MANIFEST);
        for name in manifest.chain(others) {
            let path = self.dir.join(name);
            fs::remove_file(&path).map_err(Error::io(&path))?;
            if name.contains('/') {
                remove_folder_of(&path);
            }
        }
        Ok(())
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
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Ends the shard at hand.
    fn begin_split(&mut self, split: Split) -> Result<()> {
        self.close_shard()?;
        *self.series = Series::Split(split);
        Ok(())
    }

    /// Writes to the shard at hand; starts another when that one is full.
    ///
    /// Which row is in which shard depends on the rows alone: a batch is cut where a shard is full.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        // No rows are a shard of their own only where there is no other.
        if batch.num_rows() == 0 && self.in_series() > 0 {
            return Ok(());
        }
        let columns: Vec<Column<'_>> = batch.columns().iter().map(Column::of).collect();
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
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody is there to hear of a failure, and the next run clears what stays.
        self.shard = None;
        self.placed.take_back();
        self.lock = None;
        if self.created {
            // Which it is only if nothing is left in it.
            let _ = fs::remove_dir(&self.dir);
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
