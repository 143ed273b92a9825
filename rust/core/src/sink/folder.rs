//! [`Folder`]: an output folder from the first batch to the manifest.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use arrow::record_batch::RecordBatch;
use serde_json::Value;

use super::cells::Column;
use super::lock::Lock;
use super::manifest::{File, MANIFEST, Manifest};
use super::shard::Shard;
use super::survey::{self, REPORT, STARTED, is_ours, shard_name};
use crate::config::{Coding, Output};
use crate::error::{Error, Result};

/// An output folder that this run alone writes to.
///
/// Dropped before [`Folder::finish`] has succeeded, it takes back all that it wrote.
pub struct Folder {
    dir: PathBuf,
    /// Whether the folder was not there before, and goes if the run fails.
    created: bool,
    job: Value,
    coding: Coding,
    shard_bytes: u64,
    /// What the shards at hand are named after, if each input has its own, and how many there were before them.
    stem: Option<Box<(String, usize)>>,
    shard: Option<Box<Shard>>,
    /// Column data in the shard at hand.
    bytes: u64,
    /// Shards that are whole.
    files: Vec<File>,
    /// Files that were renamed into place, to be taken back if the next one fails.
    placed: Vec<PathBuf>,
    /// Taken until the very end.
    lock: Option<Lock>,
}

/// What a folder holds before a run.
#[derive(Debug)]
pub enum Opened {
    /// Nothing in the way: write.
    Ready(Folder),
    /// The very job has finished here before; its `report.json`.
    Finished(String),
}

/// Opens the output folder for the job whose identity is `job` (a JSON object), and makes it if need be.
///
/// What a killed run of the same job left behind is cleared away. With `overwrite`, the job runs even if it
/// has finished here before, and what fastpack wrote for whatever job (shards, by their names, and the
/// report and manifest) is replaced once the new output is whole; other files stay as they are, and until
/// then a run that fails has touched nothing.
///
/// Fails with [`Error::Output`] while another run writes to the folder and, without `overwrite`, if it holds
/// anything else than the output or the leftovers of this very job; with [`Error::Io`] if it cannot be read
/// or written.
pub fn open(output: &Output, job: &Value) -> Result<Opened> {
    let dir = &output.dir;
    if dir.as_os_str().is_empty() {
        return Err(Error::option("output", "must name a folder"));
    }
    // A link that leads nowhere is there, but is no folder.
    let created = dir.symlink_metadata().is_err();
    if !created && !dir.is_dir() {
        return Err(Error::io(dir)(io::Error::from(ErrorKind::NotADirectory)));
    }
    // Without a lock: a finished folder may be read-only.
    if !created
        && !output.overwrite
        && let Some(report) = survey::finished(dir, job)?
    {
        return Ok(Opened::Finished(report));
    }
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let lock = Lock::take(dir)?;
    if !output.overwrite {
        // Again: the run that had the lock may have finished this job.
        if let Some(report) = survey::finished(dir, job)? {
            return Ok(Opened::Finished(report));
        }
        survey::refuse_others(dir, job)?;
    }
    let folder = Folder {
        dir: dir.clone(),
        created,
        job: job.clone(),
        coding: output.coding,
        shard_bytes: output.shard_bytes.max(1),
        stem: None,
        shard: None,
        bytes: 0,
        files: Vec::new(),
        placed: Vec::new(),
        lock: Some(lock),
    };
    folder.start(output.overwrite)?;
    Ok(Opened::Ready(folder))
}

impl Folder {
    /// Leaves word of which job is running, for whoever finds its leftovers, then clears those of the last:
    /// in this order, since without the word nobody may clear them.
    fn start(&self, overwrite: bool) -> Result<()> {
        let beside = self.work().join("started.json.new");
        let started = self.work().join(STARTED);
        write(&beside, &Manifest::new(self.job.clone(), Vec::new()).to_json())?;
        fs::rename(&beside, &started).map_err(Error::io(started))?;
        sync(self.work())?;
        if !overwrite {
            self.remove_old()?;
        }
        self.lock().clear(Some(STARTED))
    }

    /// Writes a batch to the shard at hand; starts another shard when that one is full.
    ///
    /// Which row is in which shard depends on the rows alone: a batch is cut where a shard is full. Columns are
    /// as [`crate::assemble`] makes them.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
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

    /// Ends the shard at hand. Those from now on are named after `stem`.
    pub fn begin(&mut self, stem: String) -> Result<()> {
        self.close_shard()?;
        self.stem = Some(Box::new((stem, self.files.len())));
        Ok(())
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
            self.files.push(shard.close(self.next_shard())?);
            self.bytes = 0;
        }
        Ok(())
    }

    fn next_shard(&self) -> String {
        let extension = self.coding.format.extension();
        match self.stem.as_deref() {
            None => shard_name(self.files.len(), extension),
            Some((stem, before)) => match self.files.len() - before {
                0 => format!("{stem}.{extension}"),
                number => format!("{stem}-{number:05}.{extension}"),
            },
        }
    }

    /// Renames the shards into place, then writes `report.json`, then the manifest.
    ///
    /// # Panics
    ///
    /// If nothing was written. A job without rows writes an empty batch, from which its one shard has the
    /// schema.
    pub fn finish(mut self, report: &str) -> Result<()> {
        self.close_shard()?;
        assert!(!self.files.is_empty(), "a job writes at least one batch, if an empty one");
        write(&self.work().join(REPORT), report)?;
        let manifest = Manifest::new(self.job.clone(), self.files.clone());
        write(&self.work().join(MANIFEST), &manifest.to_json())?;
        sync(self.work())?;

        // All is written and on the disk. Between here and the last line, the folder is nobody's output.
        self.remove_old()?;
        sync(&self.dir)?;
        for file in &manifest.files {
            self.place(&file.name)?;
        }
        self.place(REPORT)?;
        sync(&self.dir)?;
        self.place(MANIFEST)?;
        sync(&self.dir)?;
        self.placed.clear();
        self.created = false;
        Ok(())
    }

    /// Moves a whole file from the work folder to where it belongs.
    fn place(&mut self, name: &str) -> Result<()> {
        let place = self.dir.join(name);
        fs::rename(self.work().join(name), &place).map_err(Error::io(&place))?;
        self.placed.push(place);
        Ok(())
    }

    /// Removes what earlier runs wrote, the manifest first: without it, nobody takes the others for whole.
    fn remove_old(&self) -> Result<()> {
        let names = survey::names(&self.dir)?;
        let known = Manifest::read(&self.dir.join(MANIFEST))?.map_or_else(Vec::new, |it| it.files);
        let known: HashSet<String> = known.into_iter().map(|file| file.name).collect();
        let manifest = names.iter().filter(|name| *name == MANIFEST);
        let is_ours = |name: &String| is_ours(name) || known.contains(name);
        let others = names.iter().filter(|name| is_ours(name) && *name != MANIFEST);
        for name in manifest.chain(others) {
            let path = self.dir.join(name);
            fs::remove_file(&path).map_err(Error::io(path))?;
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

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody is there to hear of a failure, and the next run clears what stays.
        self.shard = None;
        for path in self.placed.drain(..).rev() {
            let _ = fs::remove_file(path);
        }
        if let Some(lock) = self.lock.take() {
            let _ = lock.clear(None);
        }
        if self.created {
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

fn write(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut file = fs::File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(Error::io(path))
}

/// Makes renames in a folder outlive a loss of power, where the system has such a thing.
fn sync(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io(dir))
    } else {
        Ok(())
    }
}
