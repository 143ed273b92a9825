//! [`TokenLog`]: the file of finished blocks, for resuming a job and for reading documents back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry::{self, EncodedEntry, LogEntry, WORD, words};
use crate::document::documents::Documents;
use crate::document::ragged_columns::ColumnName;
use crate::error::{Error, Result};
use crate::report::ledger::Ledger;
use crate::util::control::Control;
use crate::util::disk::checksummed_frames::{
    ChecksummedFrame, ChecksummedFrames, read_at, write_at,
};
use crate::util::disk::read_ahead;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::writeback::{CachePolicy, Writeback};
use crate::util::start_thread;

/// The documents of a block in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBlock {
    /// The input file of the block.
    pub(super) path: Arc<Path>,
    /// The columns of the documents. All blocks with the same ones share their memory.
    pub(super) names: Arc<[ColumnName]>,
    number: u64,
    /// The first document, in bytes from the place of the entry.
    first: u64,
    /// The end of each document, in words from the first.
    pub(super) ends: Vec<u32>,
}

/// The file of finished blocks.
///
/// Blocks are written in the order of their numbers, in whatever order they were finished: the same blocks make the same file. A block
/// that a killed run wrote in part is cut off when the file is opened again.
#[derive(Debug)]
pub struct TokenLog {
    path: PathBuf,
    file: ClosedInBackground,
    /// The entries that were there when the file was opened, by the number of their block.
    found: BTreeMap<u64, ChecksummedFrame>,
    tail: Mutex<LogTail>,
}

/// The end of the file.
#[derive(Debug)]
struct LogTail {
    end: u64,
    /// The number of the block that is written next.
    next: u64,
    /// The place of each block that is in the file.
    starts: BTreeMap<u64, u64>,
    /// The columns of the last block.
    names: Arc<[ColumnName]>,
    /// Finished blocks that wait for an earlier block to be written. A killed run loses them: at most some for each thread
    /// (`threads_in_order.rs`).
    early: BTreeMap<u64, FinishedEntry>,
    /// The bytes that were read in order, ahead of reading documents in random order.
    brought: u64,
    writeback: Writeback,
}

/// An entry that is to be written.
#[derive(Debug)]
struct FinishedEntry {
    number: u64,
    entry: EncodedEntry,
}

impl LogTail {
    /// The columns `names`, in the memory of those of the last block if they are the same.
    fn share(&mut self, names: &[ColumnName]) -> Arc<[ColumnName]> {
        if *self.names != *names {
            self.names = names.into();
        }
        Arc::clone(&self.names)
    }
}

impl TokenLog {
    /// Opens or creates the file at `path`, and finds the blocks in it.
    pub fn open(path: &Path) -> Result<Self> {
        let file = regular::open_to_write(path).map_err(Error::io(path))?;
        let frames = ChecksummedFrames::scan(&file).map_err(Error::io(path))?;
        file.set_len(frames.end).map_err(Error::io(path))?;
        Ok(Self::of(path, file, frames))
    }

    /// Opens the file at `path` for reading only.
    pub fn open_finished(path: &Path) -> Result<Self> {
        let file = regular::open(path, Links::Followed).map_err(Error::io(path))?;
        let frames = ChecksummedFrames::scan(&file).map_err(Error::io(path))?;
        Ok(Self::of(path, file, frames))
    }

    fn of(
        path: &Path,
        file: File,
        ChecksummedFrames { found, end, .. }: ChecksummedFrames,
    ) -> Self {
        let writeback = Writeback::new(end, CachePolicy::Release);
        let tail = LogTail {
            end,
            next: 0,
            starts: BTreeMap::new(),
            names: Arc::default(),
            early: BTreeMap::new(),
            brought: 0,
            writeback,
        };
        let (path, file) = (path.to_owned(), ClosedInBackground(Some(file)));
        let log = Self { path, file, found, tail: Mutex::new(tail) };
        log.begin_at(0);
        log
    }

    /// Says the number of the first block, if it is not 0.
    pub fn begin_at(&self, first: u64) {
        let mut tail = self.tail();
        tail.next = self.behind_found(first);
    }

    /// The place of the first document of a block.
    ///
    /// # Panics
    ///
    /// If a block before it is not in the log yet.
    pub(super) fn offset(&self, block: &LoggedBlock) -> u64 {
        let tail = self.tail();
        let start = tail.starts.get(&block.number).expect("blocks are used in their order");
        start + block.first
    }

    /// The first number from `number` on that was not there when the file was opened.
    fn behind_found(&self, mut number: u64) -> u64 {
        while self.found.contains_key(&number) {
            number += 1;
        }
        number
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

    /// Takes the entry of the block `number`, and writes it once all blocks before it are written.
    pub fn append(
        &self,
        number: u64,
        fingerprint: &str,
        documents: &Documents,
        ledger: &Ledger,
    ) -> Result<LoggedBlock> {
        let mut entry = entry::write(number, fingerprint, documents, ledger);
        let (path, first) = (Arc::clone(documents.path()), entry.first as u64);
        let ends = std::mem::take(&mut entry.ends);
        let mut tail = self.tail();
        let names = tail.share(&documents.names());
        let place = LoggedBlock { path, names, number, first, ends };
        tail.early.insert(number, FinishedEntry { number, entry });
        let ready = self.take_ready(&mut tail, number);
        self.write(tail, ready)?;
        Ok(place)
    }

    /// The entries that can be written, in order. A block that was there before, but damaged, waits for none: it comes behind
    /// all that were there.
    fn take_ready(&self, tail: &mut LogTail, number: u64) -> Vec<FinishedEntry> {
        let mut ready = Vec::new();
        if self.found.contains_key(&number) {
            ready.extend(tail.early.remove(&number));
        }
        while let Some(next) = tail.early.remove(&tail.next) {
            ready.push(next);
            tail.next = self.behind_found(tail.next + 1);
        }
        ready
    }

    /// Writes entries at the end of the file.
    fn write(&self, mut tail: MutexGuard<'_, LogTail>, ready: Vec<FinishedEntry>) -> Result<()> {
        let first = tail.end;
        let mut places = Vec::with_capacity(ready.len());
        // Once the headers are there, what follows the entries is found though their payloads are not all there yet: so
        // threads write next to each other.
        for FinishedEntry { number, entry } in ready {
            let EncodedEntry { header, payload, .. } = entry;
            if let Err(failure) = write_at(&self.file, &header, tail.end) {
                return Err(self.truncate_failed(&mut tail, first, failure));
            }
            let start = tail.end;
            tail.starts.insert(number, start);
            places.push((tail.end + header.len() as u64, payload));
            tail.end = places.last().map_or(first, |(at, payload)| at + payload.len() as u64);
        }
        let end = tail.end;
        drop(tail);
        for (at, payload) in places {
            if let Err(failure) = write_at(&self.file, &payload, at) {
                let mut tail = self.tail();
                if tail.end == end {
                    return Err(self.truncate_failed(&mut tail, first, failure));
                }
                return Err(Error::io(&self.path)(failure));
            }
        }
        self.tail().writeback.wrote(&self.file, end).map_err(Error::io(&self.path))
    }

    /// Cuts off the last entries from `start` on, which could not be written: the disk may need the room.
    fn truncate_failed(&self, tail: &mut LogTail, start: u64, failure: io::Error) -> Error {
        tail.end = start;
        let _ = self.file.set_len(start);
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
        let Some((entry, first, ends)) = entry else { return Ok(None) };
        let (path, first) = (Arc::clone(entry.documents.path()), first as u64);
        let mut tail = self.tail();
        tail.starts.insert(number, frame.start);
        let names = tail.share(&entry.documents.names());
        drop(tail);
        let place = LoggedBlock { path, names, number, first, ends };
        Ok(Some((entry, place)))
    }

    /// Makes all that was written outlive a loss of power; returns how many bytes there are, and the hash of the headers
    /// of all blocks.
    pub fn finish(&self) -> Result<(u64, String)> {
        let mut tail = self.tail();
        let finished = tail.writeback.finish().and_then(|()| self.file.sync_all());
        let frames = finished.and_then(|()| ChecksummedFrames::scan(&self.file));
        let digest = frames.map_err(Error::io(&self.path))?.digest;
        Ok((tail.end, digest.to_hex().to_string()))
    }

    /// Some words, `offset` bytes into the file.
    pub(super) fn words(&self, offset: u64, count: usize) -> Result<Vec<u32>> {
        // Bytes that the disk has lost would be read as something else.
        self.tail().writeback.check().map_err(Error::io(&self.path))?;
        Ok(words(&self.bytes(offset, count * WORD)?))
    }

    /// Tells the system that some bytes of the file will be read soon.
    pub(super) fn announce(&self, bytes: Range<u64>) {
        read_ahead::announce(&self.file, bytes);
    }

    /// Asks the system to read the documents that were written since the last call, in order, as far as there is room for
    /// them beside `others` bytes.
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

    fn tail(&self) -> MutexGuard<'_, LogTail> {
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
            // If the system gives no more threads, it is closed here.
            let _ = start_thread::start("fastpack-close", || drop(file));
        }
    }
}
