//! [`SimulatedRows`]: shards whose rows are encoded, hashed and written by waiting, and [`RecordedWork`], the work that they wait for.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, UInt8Array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use blake3::hazmat::ChainingValue;

use super::disk_file::DiskFile;
use super::row_threads::RowThreads;
use super::row_work::RowWork;
use super::shard::Shard;
use super::shard_file::{ShardContent, ShardFile};
use super::shards_in_order::ShardsInOrder;
use crate::error::{Error, Result as FileResult};
use crate::sink::formats::{EncodedRows, Envelope, RowEncoder};
use crate::util::control::Control;
use crate::util::simulation::machine::{Moved, SimulatedMachine, WorkKind};
use crate::util::simulation::recording::{
    EncodedUnit, JobRecording, note_hash, note_unit, note_write, timed,
};
use crate::util::thread_pool::TaskQueue;

/// Rows of files, encoded on many threads.
const ENCODE: WorkKind = WorkKind("encode rows");
const HASH: WorkKind = WorkKind("hash rows");
/// One thread at a time for each file.
const WRITE: WorkKind = WorkKind("write rows");

/// The real work, whose times are recorded.
pub(super) struct RecordedWork(pub(super) RowEncoder);

impl RowWork for RecordedWork {
    fn encode(
        &self,
        rows: &[RecordBatch],
        stopped: &dyn Fn() -> bool,
    ) -> Result<EncodedRows, ArrowError> {
        let (encoded, encode) = timed(|| self.0.encode(rows, stopped));
        let encoded = encoded?;
        let bytes = rows.iter().map(|batch| batch.get_array_memory_size() as u64).sum();
        note_unit(EncodedUnit { rows: bytes, encoded: encoded.bytes(), encode });
        Ok(encoded)
    }

    fn hash(&self, number: usize, piece: &[Buffer]) -> ChainingValue {
        let (hash, time) = timed(|| self.0.hash(number, piece));
        note_hash(time);
        hash
    }

    fn write(&self, disk: &mut DiskFile, piece: &[Buffer]) -> io::Result<()> {
        let (written, time) = timed(|| self.0.write(disk, piece));
        note_write(time);
        written
    }
}

/// Shards of recorded rows.
pub(crate) struct SimulatedRows {
    work: Arc<WaitingWork>,
    threads: RowThreads,
    open: ShardsInOrder,
    /// Bytes of the current shard, and of a full one.
    bytes: u64,
    shard_bytes: u64,
    folder: PathBuf,
    /// Batches of so many bytes. Nothing is in them, so they take no memory.
    batches: BTreeMap<u64, RecordBatch>,
}

impl SimulatedRows {
    /// Shards of this size in `folder`, where only their last bytes are written.
    pub(crate) fn new(
        recording: Arc<JobRecording>,
        machine: Arc<SimulatedMachine>,
        shard_bytes: u64,
        folder: PathBuf,
    ) -> Self {
        Self {
            work: Arc::new(WaitingWork {
                recording,
                machine,
                encoded: AtomicUsize::new(0),
                hashed: AtomicUsize::new(0),
                written: AtomicUsize::new(0),
                content: Mutex::default(),
            }),
            threads: RowThreads::new(&Control::default()),
            open: ShardsInOrder::default(),
            bytes: 0,
            shard_bytes,
            folder,
            batches: BTreeMap::new(),
        }
    }

    /// Allows this number of threads, and these bytes in hand. Returns the tasks of the threads.
    pub(crate) fn use_threads(&self, threads: NonZeroUsize, bytes: u64) -> TaskQueue {
        self.threads.limit(threads, bytes);
        self.threads.queue().clone()
    }

    /// Writes the rows of the recorded unit `number`.
    pub(crate) fn write(&mut self, number: usize) -> FileResult<()> {
        let unit = self.work.recording.units[number];
        if self.bytes + unit.encoded > self.shard_bytes {
            self.bytes = 0;
            self.open.end(String::new())?;
        }
        while self.open.next_whole()?.is_some() {}
        if !self.open.has_current() {
            let shard = self.begin()?;
            self.open.begin(shard);
        }
        self.bytes += unit.encoded;
        let batch = self.batches.entry(unit.rows).or_insert_with(|| batch(unit.rows));
        self.open.write(batch)
    }

    /// Waits until all rows so far are encoded.
    pub(crate) fn settle(&mut self) -> FileResult<()> {
        self.open.settle().map(drop)
    }

    /// Ends the current shard, and waits for all.
    pub(crate) fn close(&mut self) -> FileResult<()> {
        self.bytes = 0;
        self.open.end(String::new())?;
        while self.open.wait_for_next()?.is_some() {}
        Ok(())
    }

    fn begin(&self) -> FileResult<Shard> {
        let number = self.work.encoded.load(Relaxed);
        let path = self.folder.join(format!("{number}"));
        let disk = DiskFile::begin(&path, &self.threads.cached).map_err(Error::io(&path))?;
        let work = Box::new(Arc::clone(&self.work));
        let envelope = Envelope::Plain(Vec::new());
        let content = ShardContent { work, envelope, head: Vec::new(), counts: false };
        Ok(Shard::of(ShardFile::of(disk, &path, content, &self.threads)))
    }
}

/// Waits as long as the recorded work took.
struct WaitingWork {
    recording: Arc<JobRecording>,
    machine: Arc<SimulatedMachine>,
    /// Units and pieces so far.
    encoded: AtomicUsize,
    hashed: AtomicUsize,
    written: AtomicUsize,
    /// Encoded rows of so many bytes. Nothing is in them, so they take no memory.
    content: Mutex<BTreeMap<u64, Buffer>>,
}

impl RowWork for Arc<WaitingWork> {
    fn encode(
        &self,
        rows: &[RecordBatch],
        _: &dyn Fn() -> bool,
    ) -> Result<EncodedRows, ArrowError> {
        let mut buffers = Vec::new();
        for _ in rows {
            let unit = self.recording.units[self.encoded.fetch_add(1, Relaxed)];
            let moved = Moved { memory: unit.rows + unit.encoded, disk: 0 };
            self.machine.work(ENCODE, unit.encode, moved);
            let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
            let buffer = content.entry(unit.encoded).or_insert_with(|| zeros(unit.encoded));
            buffers.push(buffer.clone());
        }
        Ok(EncodedRows::Bytes(buffers))
    }

    fn hash(&self, _: usize, piece: &[Buffer]) -> ChainingValue {
        let number = self.hashed.fetch_add(1, Relaxed);
        if let Some(recorded) = self.recording.pieces.get(number) {
            self.machine.work(HASH, recorded.hash, Moved { memory: size(piece), disk: 0 });
        }
        ChainingValue::default()
    }

    fn write(&self, disk: &mut DiskFile, piece: &[Buffer]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Relaxed);
        if let Some(recorded) = self.recording.pieces.get(number) {
            let bytes = size(piece);
            self.machine.work(WRITE, recorded.write, Moved { memory: 2 * bytes, disk: bytes });
        }
        disk.skip(size(piece));
        Ok(())
    }
}

fn size(piece: &[Buffer]) -> u64 {
    piece.iter().map(|buffer| buffer.len() as u64).sum()
}

/// Bytes that the system gives no memory for until they are read.
fn zeros(bytes: u64) -> Buffer {
    Buffer::from_vec(vec![0_u8; usize::try_from(bytes).expect("a unit fits into memory")])
}

/// A batch of one column of so many bytes.
fn batch(bytes: u64) -> RecordBatch {
    let values = UInt8Array::new(zeros(bytes).into(), None);
    let field = Field::new("rows", DataType::UInt8, false);
    let columns: Vec<ArrayRef> = vec![Arc::new(values)];
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), columns).expect("one column")
}
