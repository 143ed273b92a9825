//! [`Log`]: the file of finished blocks, for resuming a job and for reading documents back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry::{self, LogEntry, WORD, words};
use crate::control::Control;
use crate::document::{ColumnName, Documents};
use crate::error::{Error, Result};
use crate::frames::{Frame, Frames, read_at, write_at};
use crate::ledger::Ledger;
use crate::read_ahead;
use crate::regular::{self, Links};
use crate::threads;
use crate::writeback::{CachePolicy, Writeback};

/// The documents of a block in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBlock {
    /// The input file of the block.
    pub(super) path: Arc<Path>,
    /// The columns of the documents.
    pub(super) names: Arc<[ColumnName]>,
    /// The place of the first record.
    pub(super) offset: u64,
    /// The end of each record, in words from there.
    pub(super) ends: Vec<u32>,
}

/// The file of finished blocks.
///
/// Blocks are found by their number, in whatever order they were finished. A block that a killed run wrote in part is cut
/// off when the file is opened again.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: ClosedInBackground,
    /// The entries that were there when the file was opened, by the number of their block.
    found: BTreeMap<u64, Frame>,
    tail: Mutex<Tail>,
}

/// The end of the file.
#[derive(Debug)]
struct Tail {
    end: u64,
    /// The bytes that were read in order, ahead of reading documents in random order.
    brought: u64,
    writeback: Writeback,
}

impl Log {
    /// Opens or creates the file at `path`, and finds the blocks in it.
    pub fn open(path: &Path) -> Result<Self> {
        let file = regular::open_to_write(path).map_err(Error::io(path))?;
        let frames = Frames::scan(&file).map_err(Error::io(path))?;
        file.set_len(frames.end).map_err(Error::io(path))?;
        Ok(Self::of(path, file, frames))
    }

    /// Opens the file at `path` for reading only.
    pub fn open_finished(path: &Path) -> Result<Self> {
        let file = regular::open(path, Links::Followed).map_err(Error::io(path))?;
        let frames = Frames::scan(&file).map_err(Error::io(path))?;
        Ok(Self::of(path, file, frames))
    }

    fn of(path: &Path, file: File, Frames { found, end, .. }: Frames) -> Self {
        let writeback = Writeback::new(end, CachePolicy::Release);
        let tail = Tail { end, brought: 0, writeback };
        Self {
            path: path.to_owned(),
            file: ClosedInBackground(Some(file)),
            found,
            tail: Mutex::new(tail),
        }
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of the blocks that were there when the file was opened, ascending.
    pub fn found(&self) -> impl ExactSizeIterator<Item = u64> {
        self.found.keys().copied()
    }

    /// Says that documents will be read back, so that the system keeps later writes in memory.
    pub(super) fn expect_reads(&self) {
        self.tail().writeback.cache_policy = CachePolicy::Keep;
    }

    /// Appends the entry of the block `number`.
    pub fn append(
        &self,
        number: u64,
        fingerprint: &str,
        documents: &Documents,
        ledger: &Ledger,
    ) -> Result<LoggedBlock> {
        let written = entry::write(number, fingerprint, documents, ledger);
        let (header, payload) = (&written.header, &written.payload);
        let mut tail = self.tail();
        let start = tail.end;
        let end = start + (header.len() + payload.len()) as u64;
        // Once the header is there, what follows the entry is found though its payload is not all there yet: so
        // threads write next to each other.
        if let Err(failure) = write_at(&self.file, header, start) {
            return Err(self.give_room_back(&tail, start, failure));
        }
        tail.end = end;
        drop(tail);
        if let Err(failure) = write_at(&self.file, payload, start + header.len() as u64) {
            let mut tail = self.tail();
            if tail.end == end {
                tail.end = start;
            }
            return Err(self.give_room_back(&tail, start, failure));
        }
        self.tail().writeback.wrote(&self.file, end).map_err(Error::io(&self.path))?;
        let (path, names) = (Arc::clone(documents.path()), documents.names().into());
        Ok(LoggedBlock { path, names, offset: start + written.records as u64, ends: written.ends })
    }

    /// Cuts off the entry from `start` on, which could not be written, if it is the last: the disk may need the room.
    fn give_room_back(&self, tail: &Tail, start: u64, failure: io::Error) -> Error {
        if tail.end == start {
            let _ = self.file.set_len(start);
        }
        Error::io(&self.path)(failure)
    }

    /// The entry of the block `number`, if it was complete when the file was opened.
    ///
    /// `path` is the file that the block is of, where that is at hand.
    pub fn entry(
        &self,
        number: u64,
        path: Option<&Arc<Path>>,
    ) -> Result<Option<(LogEntry, LoggedBlock)>> {
        let Some(frame) = self.found.get(&number) else { return Ok(None) };
        let payload = frame.payload(&self.file).map_err(Error::io(&self.path))?;
        let entry = payload.and_then(|payload| LogEntry::read(&payload, path));
        let Some((entry, records, ends)) = entry else { return Ok(None) };
        let offset = frame.start + records as u64;
        let names = entry.documents.names().into();
        let place = LoggedBlock { path: Arc::clone(entry.documents.path()), names, offset, ends };
        Ok(Some((entry, place)))
    }

    /// Makes all that was written outlive a loss of power; returns how many bytes there are, and the hash of the headers
    /// of all blocks.
    pub fn finish(&self) -> Result<(u64, String)> {
        let mut tail = self.tail();
        let finished = tail.writeback.finish().and_then(|()| self.file.sync_all());
        let frames = finished.and_then(|()| Frames::scan(&self.file));
        let digest = frames.map_err(Error::io(&self.path))?.digest;
        Ok((tail.end, digest.to_hex().to_string()))
    }

    /// Some words, `offset` bytes into the file.
    pub(super) fn words(&self, offset: u64, count: usize) -> Result<Vec<u32>> {
        // What the disk has lost would be read as something else.
        self.tail().writeback.check().map_err(Error::io(&self.path))?;
        Ok(words(&self.bytes(offset, count * WORD)?))
    }

    /// Tells the system that some bytes of the file will be read soon.
    pub(super) fn announce(&self, bytes: Range<u64>) {
        read_ahead::announce(&self.file, bytes);
    }

    /// Has what was written since this was last asked for read in order, as much of it as the system has room for beside
    /// `others` bytes.
    pub(super) fn bring(&self, others: u64, control: &Control) -> Result<()> {
        let mut tail = self.tail();
        let new = tail.brought..tail.end;
        tail.brought = new.end;
        drop(tail);
        read_ahead::bring(&self.file, new, others, control)
    }

    fn bytes(&self, offset: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        read_at(&self.file, &mut bytes, offset).map_err(Error::io(&self.path))?;
        Ok(bytes)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a file from which on closing it is worth a thread.
const LARGE: u64 = 64 << 20;

/// A file that a thread of its own closes if it is large, for which nobody waits: where it was removed before, the system
/// takes 0.1 to 0.2 s to give 290 MB free (2026-11-22, `benches/python/run.py --seeded --megabytes 300`).
#[derive(Debug)]
struct ClosedInBackground(Option<File>);

impl Deref for ClosedInBackground {
    type Target = File;

    fn deref(&self) -> &File {
        self.0.as_ref().expect("it is open until it is dropped")
    }
}

impl Drop for ClosedInBackground {
    fn drop(&mut self) {
        let Some(file) = self.0.take() else { return };
        if file.metadata().is_ok_and(|metadata| metadata.len() >= LARGE) {
            // Where the system gives no more threads, it is closed here.
            let _ = threads::start("fastpack-close", || drop(file));
        }
    }
}
