//! [`ShardFile`]: a file of rows that many threads encode, hash and write.
//!
//! ```text
//! rows ─► encoded, on any thread ─► placed, in order ─► pieces of 1 MiB: hashed, on any thread ─► written, in order
//! ```
//!
//! Units of rows are encoded in any order, and so are pieces hashed. The thread that completes the next one places or writes it,
//! and those behind it that are complete already. No thread blocks for the order. The thread that writes the last full piece of a file
//! that has ended also ends it on the disk, so several files are written side by side.

use std::any::Any;
use std::collections::BTreeMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use blake3::hazmat::ChainingValue;

use super::disk_file::DiskFile;
use super::row_threads::{BytesInHand, POLL, RowThreads};
use super::row_work::RowWork;
use crate::config::{Format, RowEncoding};
use crate::error::{Error, Result};
use crate::report::timing::{Clock, Stage, Stages};
use crate::sink::formats::{EncodedRows, Envelope, RowEncoder, msgpack_head};
use crate::util::control::Control;
use crate::util::disk::file_hash::{FileHash, PIECE, hash_of_piece};
use crate::util::start_thread;
use crate::util::thread_pool::TaskQueue;

/// The bytes around the rows of a file, and the work on the rows.
pub(super) struct ShardContent {
    pub(super) work: Box<dyn RowWork>,
    pub(super) envelope: Envelope,
    /// The bytes that the file begins with.
    pub(super) head: Vec<Buffer>,
    /// True for a format that has the number of rows at its beginning.
    pub(super) counts: bool,
}

impl ShardContent {
    pub(super) fn new(coding: RowEncoding, schema: &SchemaRef) -> Result<Self> {
        let (encoder, envelope, head) = RowEncoder::new(coding, schema)?;
        #[cfg(test)]
        let encoder = super::simulated_rows::RecordedWork(encoder);
        let counts = coding.format == Format::MsgpackArrays;
        Ok(Self { work: Box::new(encoder), envelope, head, counts })
    }
}

/// A file of rows that is being written.
pub(super) struct ShardFile {
    path: PathBuf,
    work: Box<dyn RowWork>,
    /// True for a format that has the number of rows at its beginning.
    counts: bool,
    tasks: TaskQueue,
    /// The rows of all files.
    in_hand: Arc<BytesInHand>,
    control: Arc<Control>,
    state: Mutex<EncodingState>,
    moved: Condvar,
    /// Set when the file is given up, or a task has failed.
    stopped: AtomicBool,
}

struct EncodingState {
    /// Units of rows that were handed over.
    units: usize,
    /// Units that stand in the file.
    placed: usize,
    /// Encoded units that wait for an earlier one, by number.
    encoded: BTreeMap<usize, EncodedRows>,
    /// The bytes around the rows; `None` after the end.
    envelope: Option<Envelope>,
    /// The piece that is being filled. The last piece of a file is never full before its end.
    open: OpenPiece,
    /// The hashes of full pieces.
    hashes: Vec<ChainingValue>,
    /// Hashed pieces that wait to be written, by number.
    hashed: BTreeMap<usize, Vec<Buffer>>,
    /// Pieces that stand on the disk.
    written: usize,
    /// The first piece, if it is hashed at the end.
    first: Vec<Buffer>,
    /// The file, unless a thread writes to it.
    disk: Option<DiskFile>,
    /// Bytes of rows, encoded or not, that are not placed.
    unplaced: u64,
    /// Bytes of this file that are counted as in hand.
    counted: u64,
    /// The number of all rows, once no more come.
    rows: Option<u64>,
    /// The last work on the file, until a thread takes it.
    ending: Option<FileEnd>,
    /// The thread that ends a large file.
    thread: Option<JoinHandle<()>>,
    /// The bytes of the file and its hashes, once it lies on the disk.
    ended: Option<(u64, FileHash)>,
    failure: Option<ShardFailure>,
    spent: Stages,
}

/// The failure of a task: an error or a panic.
enum ShardFailure {
    Error(Error),
    Panic(Box<dyn Any + Send>),
}

/// The end of a file of which all full pieces are written.
struct FileEnd {
    disk: DiskFile,
    last: OpenPiece,
    /// The first piece, if it is hashed at the end.
    first: Vec<Buffer>,
    /// The hashes of full pieces.
    hashes: Vec<ChainingValue>,
}

/// The piece of a file that is being filled.
#[derive(Default)]
struct OpenPiece {
    number: usize,
    buffers: Vec<Buffer>,
    bytes: usize,
}

/// A piece that takes no more bytes.
struct FullPiece {
    number: usize,
    buffers: Vec<Buffer>,
}

impl ShardFile {
    /// Creates the file at `path`, where there must be none.
    pub(super) fn begin(
        path: &Path,
        coding: RowEncoding,
        schema: &SchemaRef,
        threads: &RowThreads,
    ) -> Result<Arc<Self>> {
        let disk = DiskFile::begin(path, &threads.cached).map_err(Error::io(path))?;
        Ok(Self::of(disk, path, ShardContent::new(coding, schema)?, threads))
    }

    /// A file with any work in place of encoding, hashing and writing rows.
    pub(super) fn of(
        disk: DiskFile,
        path: &Path,
        content: ShardContent,
        threads: &RowThreads,
    ) -> Arc<Self> {
        let ShardContent { work, envelope, head, counts } = content;
        let mut open = OpenPiece::default();
        for buffer in head {
            open.push(buffer, &mut Vec::new());
        }
        let state = EncodingState {
            units: 0,
            placed: 0,
            encoded: BTreeMap::new(),
            envelope: Some(envelope),
            open,
            hashes: Vec::new(),
            hashed: BTreeMap::new(),
            written: 0,
            first: Vec::new(),
            disk: Some(disk),
            unplaced: 0,
            counted: 0,
            rows: None,
            ending: None,
            thread: None,
            ended: None,
            failure: None,
            spent: Stages::default(),
        };
        Arc::new(Self {
            path: path.to_owned(),
            work,
            counts,
            tasks: threads.queue().clone(),
            in_hand: Arc::clone(&threads.in_hand),
            control: Arc::clone(&threads.control),
            state: Mutex::new(state),
            moved: Condvar::new(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Hands rows over to the threads, once they have room for them.
    pub(super) fn write(self: &Arc<Self>, rows: Vec<RecordBatch>) -> Result<()> {
        self.in_hand.wait_for_room(|| self.check(&mut self.lock()))?;
        let number = self.take_unit(&rows);
        let file = Arc::clone(self);
        self.tasks.run(Box::new(move || file.run_task(|| file.encode(number, rows))));
        Ok(())
    }

    /// Counts a unit of rows, and returns its number.
    fn take_unit(&self, rows: &[RecordBatch]) -> usize {
        let mut state = self.lock();
        state.unplaced += bytes_of(rows);
        state.units += 1;
        self.count(&mut state);
        state.units - 1
    }

    /// Waits until all rows that were handed over are encoded, and all full pieces written.
    pub(super) fn settle(&self) -> Result<()> {
        let state = self.lock();
        self.wait(state, |state| !state.is_busy()).map(drop)
    }

    /// The time that the threads have taken since the last call.
    pub(super) fn take_spent(&self) -> Stages {
        mem::take(&mut self.lock().spent)
    }

    /// Takes the last rows; `count` is the number of all. Once they are written, the threads end the file.
    ///
    /// A file that has nothing in hand but these is ended on this thread.
    pub(super) fn end(self: &Arc<Self>, rows: Vec<RecordBatch>, count: u64) -> Result<()> {
        let is_idle = !self.lock().is_busy();
        if is_idle && !rows.is_empty() {
            let number = self.take_unit(&rows);
            self.run_task(|| self.encode(number, rows));
        } else if !rows.is_empty() {
            self.write(rows)?;
        }
        self.lock().rows = Some(count);
        self.run_task(|| self.end_if_written());
        Ok(())
    }

    /// True if the file lies on the disk, or has failed.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.lock();
        state.ended.is_some() || state.failure.is_some()
    }

    /// Waits until the file lies on the disk. Returns its bytes and its hashes.
    pub(super) fn wait_for_end(&self) -> Result<(u64, FileHash)> {
        let mut state = self.wait(self.lock(), |state| state.ended.is_some())?;
        let ended = state.ended.take().expect("it was waited for");
        let thread = state.thread.take();
        drop(state);
        if let Some(thread) = thread {
            // It has done its work, and ends.
            let _ = thread.join();
        }
        self.control.tick()?;
        Ok(ended)
    }

    /// Places the end of a file of which all rows are placed, and ends it on the disk once all full pieces are written.
    fn end_if_written(self: &Arc<Self>) -> Result<()> {
        let clock = Clock::start();
        let mut state = self.lock();
        let Some(count) = state.rows else { return Ok(()) };
        if state.placed == state.units
            && let Some(envelope) = state.envelope.take()
        {
            let mut full = Vec::new();
            for buffer in envelope.finish().map_err(|error| self.failed(error))? {
                state.open.push(buffer, &mut full);
            }
            self.count(&mut state);
            drop(state);
            self.hash(full);
            state = self.lock();
        }
        if state.envelope.is_some() || state.written < state.open.number {
            return Ok(());
        }
        let Some(disk) = state.disk.take() else { return Ok(()) };
        let is_large = disk.is_large();
        let none = OpenPiece { number: state.open.number, ..OpenPiece::default() };
        state.ending = Some(FileEnd {
            disk,
            last: mem::replace(&mut state.open, none),
            first: mem::take(&mut state.first),
            hashes: mem::take(&mut state.hashes),
        });
        state.spent += clock.stop_after(Stage::Write);
        if is_large {
            // It may wait long for the disk: neither another task nor a cancelled call waits with it.
            let file = Arc::clone(self);
            let end = move || file.run_task(|| file.end_on_disk(count));
            state.thread = start_thread::start("fastpack-sync", end).ok();
        }
        let has_thread = state.thread.is_some();
        drop(state);
        if has_thread { Ok(()) } else { self.end_on_disk(count) }
    }

    /// Writes the last piece, and syncs the file.
    fn end_on_disk(&self, count: u64) -> Result<()> {
        let clock = Clock::start();
        let Some(end) = self.lock().ending.take() else { return Ok(()) };
        let FileEnd { mut disk, mut last, mut first, mut hashes } = end;
        let io_error = |error| Error::io(&self.path)(error);
        let begun = last.number;
        if self.counts {
            let rows = u32::try_from(count).map_err(|_| {
                Error::option(
                    "format.shard_size",
                    "is so large that a file has more than 2^32 rows",
                )
            })?;
            let beginning = if begun == 0 { &mut last.buffers } else { &mut first };
            beginning[0] = Buffer::from_vec(msgpack_head(rows).to_vec());
        }
        disk.append(last.slices()).map_err(io_error)?;
        if let Some(head) = first.first() {
            disk.overwrite(head).map_err(io_error)?;
            hashes[0] = hash_of_piece(0, first.iter().map(Buffer::as_slice));
        }
        let bytes = begun as u64 * PIECE as u64 + last.bytes as u64;
        let hash = if begun == 0 {
            FileHash::of_piece(last.slices())
        } else {
            hashes.push(hash_of_piece(begun, last.slices()));
            FileHash::of_pieces(&hashes, bytes)
        };
        let synced = disk.sync().map_err(io_error)?;
        assert_eq!(synced, bytes, "all pieces were written");
        let mut state = self.lock();
        state.ended = Some((bytes, hash));
        state.spent += clock.stop_after(Stage::Write);
        drop(state);
        self.moved.notify_all();
        Ok(())
    }

    /// Hands pieces over to be hashed, before all other tasks.
    fn hash(self: &Arc<Self>, full: Vec<FullPiece>) {
        for piece in full {
            let file = Arc::clone(self);
            let task = move || file.run_task(|| file.hash_and_write(piece));
            self.tasks.run_first(Box::new(task));
        }
    }

    /// Counts the bytes that this file has in hand.
    fn count(&self, state: &mut EncodingState) {
        let bytes = if self.is_given_up() { 0 } else { state.bytes_in_hand() };
        let before = mem::replace(&mut state.counted, bytes);
        if before != bytes {
            self.in_hand.change(before, bytes);
        }
    }

    /// Gives the file up: a task has failed, or nobody waits for it any more.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        // Other files have room then.
        self.count(&mut self.lock());
    }

    fn is_given_up(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.is_given_up() || self.control.is_cancelled()
    }

    /// Encodes a unit of rows, and places the next unit of the file.
    fn encode(self: &Arc<Self>, number: usize, rows: Vec<RecordBatch>) -> Result<()> {
        let clock = Clock::start();
        let before = bytes_of(&rows);
        let encoded = self.work.encode(&rows, &|| self.is_stopped());
        let encoded = encoded.map_err(|error| self.failed(error))?;
        drop(rows);
        if self.is_stopped() {
            // Encoding ends early then, and its output may lack rows. `wait` returns the failure of the other task.
            return self.control.tick();
        }
        let mut full = Vec::new();
        let mut state = self.lock();
        state.unplaced = state.unplaced + encoded.bytes() - before;
        state.encoded.insert(number, encoded);
        state.place(&mut full).map_err(|error| self.failed(error))?;
        self.count(&mut state);
        state.spent += clock.stop_after(Stage::Write);
        drop(state);
        self.moved.notify_all();
        self.hash(full);
        self.end_if_written()
    }

    /// Hashes a piece, and writes the pieces that are next in the file, unless another thread does it.
    fn hash_and_write(self: &Arc<Self>, FullPiece { number, buffers }: FullPiece) -> Result<()> {
        let clock = Clock::start();
        let is_hashed_last = self.counts && number == 0;
        let hash = if is_hashed_last {
            ChainingValue::default()
        } else {
            self.work.hash(number, &buffers)
        };
        let mut state = self.lock();
        if is_hashed_last {
            state.first.clone_from(&buffers);
        }
        let hashes = state.hashes.len().max(number + 1);
        state.hashes.resize(hashes, ChainingValue::default());
        state.hashes[number] = hash;
        state.hashed.insert(number, buffers);
        if let Some(mut disk) = state.disk.take() {
            while let Some(piece) = state.next_to_write() {
                drop(state);
                let wrote = self.work.write(&mut disk, &piece);
                drop(piece);
                state = self.lock();
                if let Err(error) = wrote {
                    state.disk = Some(disk);
                    return Err(Error::io(&self.path)(error));
                }
                state.written += 1;
                self.count(&mut state);
                self.moved.notify_all();
            }
            state.disk = Some(disk);
        }
        state.spent += clock.stop_after(Stage::Write);
        drop(state);
        self.moved.notify_all();
        self.end_if_written()
    }

    /// Does a task's work, and keeps its failure for the thread that waits.
    fn run_task(&self, work: impl FnOnce() -> Result<()>) {
        if self.is_stopped() {
            return;
        }
        let failure = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => ShardFailure::Error(error),
            Err(panic) => ShardFailure::Panic(panic),
        };
        // Whoever sees that the work has stopped finds the cause.
        self.lock().failure.get_or_insert(failure);
        self.stop();
        self.moved.notify_all();
    }

    /// Waits until `is_done`, or until a task has failed.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, EncodingState>,
        is_done: impl Fn(&EncodingState) -> bool,
    ) -> Result<MutexGuard<'a, EncodingState>> {
        loop {
            self.check(&mut state)?;
            if is_done(&state) {
                return Ok(state);
            }
            let waited = self.moved.wait_timeout(state, POLL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Fails if a task has failed, or the run is cancelled.
    fn check(&self, state: &mut EncodingState) -> Result<()> {
        match state.failure.take() {
            Some(ShardFailure::Error(error)) => Err(error),
            Some(ShardFailure::Panic(panic)) => resume_unwind(panic),
            None => self.control.tick(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, EncodingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of this file.
    fn failed(&self, error: ArrowError) -> Error {
        match error {
            ArrowError::IoError(_, source) => Error::io(&self.path)(source),
            other => other.into(),
        }
    }
}

impl EncodingState {
    /// True while rows are being encoded, or full pieces written.
    fn is_busy(&self) -> bool {
        self.placed < self.units || self.written < self.open.number || self.disk.is_none()
    }

    /// Bytes of rows, encoded or not, that are not written, but for the piece that is being filled.
    fn bytes_in_hand(&self) -> u64 {
        self.unplaced + (self.open.number - self.written) as u64 * PIECE as u64
    }

    /// Places the encoded rows that are next, and adds the pieces that become full.
    fn place(&mut self, full: &mut Vec<FullPiece>) -> std::result::Result<(), ArrowError> {
        let envelope = self.envelope.as_mut().expect("the file has not ended");
        while let Some(rows) = self.encoded.remove(&self.placed) {
            self.placed += 1;
            self.unplaced -= rows.bytes();
            for buffer in envelope.place(rows)? {
                self.open.push(buffer, full);
            }
        }
        Ok(())
    }

    /// The piece that is written next, if it is hashed.
    fn next_to_write(&mut self) -> Option<Vec<Buffer>> {
        self.hashed.remove(&self.written)
    }
}

impl OpenPiece {
    /// Adds bytes, and the pieces that become full.
    fn push(&mut self, mut buffer: Buffer, full: &mut Vec<FullPiece>) {
        while !buffer.is_empty() {
            if self.bytes == PIECE {
                full.push(FullPiece { number: self.number, buffers: mem::take(&mut self.buffers) });
                (self.number, self.bytes) = (self.number + 1, 0);
            }
            let now = buffer.len().min(PIECE - self.bytes);
            self.buffers.push(buffer.slice_with_length(0, now));
            self.bytes += now;
            buffer = buffer.slice(now);
        }
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers.iter().map(Buffer::as_slice)
    }
}

/// The bytes of the column data of rows.
fn bytes_of(rows: &[RecordBatch]) -> u64 {
    rows.iter().map(|batch| batch.get_array_memory_size() as u64).sum()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::num::NonZeroUsize;

    use arrow::array::{ArrayRef, AsArray, Int32Array, ListArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression as Codec, ZstdLevel};
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::config::{Compression, RowLayout};
    use crate::sink::shards::shard::Shard;
    use crate::util::start_thread::tests::with_at_most;

    /// Batches of two rows of two columns, each with this number of tokens in all.
    fn batches(count: usize, tokens: i32) -> Vec<RecordBatch> {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        let field = |name| Field::new(name, DataType::List(Arc::clone(&item)), false);
        let schema = Arc::new(Schema::new(vec![field("input_ids"), field("labels")]));
        let column = |seed: i32| -> ArrayRef {
            let values = (0..tokens).map(|at| (at.wrapping_mul(seed) >> 7) & 0xffff);
            let values = Arc::new(Int32Array::from_iter_values(values));
            let offsets = OffsetBuffer::new(vec![0, tokens / 3, tokens].into());
            Arc::new(ListArray::new(Arc::clone(&item), offsets, values, None))
        };
        let batches = (1..).take(count).map(|seed| {
            let columns = vec![column(7919 * seed), column(104_729 * seed)];
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("sound columns")
        });
        batches.collect()
    }

    /// The numbers of each column of each row.
    fn rows(batches: &[RecordBatch]) -> Vec<Vec<Vec<i32>>> {
        let list = |column: &ArrayRef, row| {
            let numbers = column.as_list::<i32>().value(row);
            numbers.as_primitive::<Int32Type>().values().to_vec()
        };
        let of_batch = |batch: &RecordBatch| -> Vec<Vec<Vec<i32>>> {
            let row = |row| batch.columns().iter().map(|column| list(column, row)).collect();
            (0..batch.num_rows()).map(row).collect()
        };
        batches.iter().flat_map(of_batch).collect()
    }

    /// So many threads, which may have one unit in hand.
    fn threads(number: usize) -> RowThreads {
        let threads = RowThreads::new(&Control::default());
        threads.limit(NonZeroUsize::new(number).expect("a test with threads"), 0);
        threads
    }

    /// The bytes that the writers of the formats make of these batches on one thread.
    fn reference(coding: RowEncoding, batches: &[RecordBatch]) -> Vec<u8> {
        match coding.format {
            Format::Arrow => arrow_reference(coding, batches),
            Format::Parquet => parquet_reference(batches),
            Format::Jsonl => {
                let lines = rows(batches).into_iter().map(|row| {
                    format!("{{\"input_ids\":{:?},\"labels\":{:?}}}\n", row[0], row[1])
                        .replace(", ", ",")
                });
                lines.collect::<String>().into_bytes()
            }
            Format::MsgpackArrays => {
                let rows = rows(batches);
                let count = u32::try_from(rows.len()).expect("few rows");
                let mut bytes = vec![0xdd];
                bytes.extend(count.to_be_bytes());
                let length = |row: &[i32]| u32::try_from(row.len()).expect("short rows");
                for row in rows {
                    rmp::encode::write_array_len(&mut bytes, 3).expect("room");
                    for column in &row {
                        rmp::encode::write_array_len(&mut bytes, length(column)).expect("room");
                        for &number in column {
                            rmp::encode::write_sint(&mut bytes, number.into()).expect("room");
                        }
                    }
                    rmp::encode::write_uint(&mut bytes, length(&row[0]).into()).expect("room");
                }
                bytes
            }
        }
    }

    fn arrow_reference(coding: RowEncoding, batches: &[RecordBatch]) -> Vec<u8> {
        let codec = coding.compression.map(|_| CompressionType::ZSTD);
        let options = IpcWriteOptions::default().try_with_compression(codec).expect("a codec");
        let schema = batches[0].schema();
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &schema, options).expect("a schema");
        for batch in batches {
            writer.write(batch).expect("room");
        }
        writer.into_inner().expect("room")
    }

    /// A row group ends with a batch: batches are as small as rows of the test allow.
    fn parquet_reference(batches: &[RecordBatch]) -> Vec<u8> {
        let properties = WriterProperties::builder()
            .set_compression(Codec::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(None)
            .set_created_by(format!("fastpack {}", env!("CARGO_PKG_VERSION")))
            .build();
        let schema = batches[0].schema();
        let mut writer =
            ArrowWriter::try_new(Vec::new(), schema, Some(properties)).expect("a schema");
        let mut bytes = 0;
        for batch in batches {
            let lists = rows(std::slice::from_ref(batch)).into_iter().flatten();
            bytes += lists.map(|list| 4 * list.len() + 4).sum::<usize>();
            writer.write(batch).expect("room");
            if bytes >= 16 << 20 {
                writer.flush().expect("room");
                bytes = 0;
            }
        }
        writer.into_inner().expect("room")
    }

    #[test]
    fn files_are_those_of_one_thread_and_so_are_their_hashes() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        let of = |format, compression| RowEncoding { format, layout: RowLayout::Full, compression };
        let sizes = [(1, 3), (1, 300_000), (9, 70_001)];
        for (coding, sizes) in [
            // More than a part of a hash, and more than a row group.
            (of(Format::Arrow, None), &[(1, 3), (1, 300_000), (9, 70_001), (20, 131_072)][..]),
            (of(Format::Parquet, None), &[(1, 3), (9, 70_001), (20, 131_072)]),
            (of(Format::Arrow, Some(Compression::Zstd)), &sizes),
            (of(Format::Jsonl, None), &sizes),
            (of(Format::MsgpackArrays, None), &sizes),
        ] {
            for &(count, tokens) in sizes {
                let batches = batches(count, tokens);
                let expected = reference(coding, &batches);
                let known = blake3::hash(&expected).to_hex().to_string();
                // Threads, bytes in hand, and the threads that the system gives.
                for (number, room, started) in [(1, 0, 1), (3, 0, 2), (33, 1 << 30, 33), (8, 0, 0)]
                {
                    let file = with_at_most(started, || {
                        let threads = threads(number);
                        threads.limit(threads.number(), room);
                        let schema = batches[0].schema();
                        let shard = Shard::create(&path, coding, &schema, &threads);
                        let mut shard = shard.expect("room");
                        for batch in &batches {
                            shard.write(batch).expect("room");
                        }
                        shard.settle().expect("room");
                        let ended = shard.end("shard".to_owned()).expect("room");
                        ended.wait().expect("a disk").0
                    });
                    let case = format!("{coding:?}, {count} batches of {tokens}, {number} threads");
                    assert!(std::fs::read(&path).expect("the file") == expected, "{case}");
                    assert_eq!(
                        (file.bytes, &file.blake3),
                        (expected.len() as u64, &known),
                        "{case}"
                    );
                    assert_eq!(file.rows, 2 * count as u64);
                    let parts = expected.len().div_ceil(8 << 20);
                    assert_eq!(file.parts.len(), if parts > 1 { 64 * parts } else { 0 });
                    std::fs::remove_file(&path).expect("the file");
                }
            }
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_written_to() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        std::fs::write(&path, "mine").expect("room for it");
        let coding =
            RowEncoding { format: Format::Jsonl, layout: RowLayout::Full, compression: None };
        let schema = batches(1, 3)[0].schema();
        let refused = ShardFile::begin(&path, coding, &schema, &threads(1)).map(drop);
        assert!(
            matches!(refused, Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists)
        );
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "mine");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_by_the_next_rows_or_at_the_end() {
        let full = Path::new("/dev/full");
        let coding =
            RowEncoding { format: Format::Arrow, layout: RowLayout::Full, compression: None };
        for count in [1, 2, 10, 100] {
            let batches = batches(count, 70_001);
            let file = std::fs::File::options().write(true).open(full).expect("a device");
            let threads = threads(3);
            let schema = batches[0].schema();
            let content = ShardContent::new(coding, &schema).expect("a schema");
            let file = ShardFile::of(DiskFile::of(file, &threads.cached), full, content, &threads);
            let written = batches.into_iter().try_for_each(|batch| file.write(vec![batch]));
            let ended = written.and_then(|()| file.end(Vec::new(), 0));
            let failed = ended.and_then(|()| file.wait_for_end().map(drop));
            assert!(
                matches!(failed, Err(Error::Io { source, .. }) if source.kind() == ErrorKind::StorageFull)
            );
        }
    }

    #[test]
    fn a_cancelled_run_waits_for_nothing() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let coding =
            RowEncoding { format: Format::Jsonl, layout: RowLayout::Full, compression: None };
        let control = Control::default();
        let threads = RowThreads::new(&control);
        threads.limit(threads.number(), 0);
        let batches = batches(20, 70_001);
        let path = dir.path().join("shard");
        let file = ShardFile::begin(&path, coding, &batches[0].schema(), &threads).expect("room");
        let mut batches = batches.into_iter();
        file.write(batches.by_ref().take(1).collect()).expect("room");
        control.cancel();
        let written = batches.try_for_each(|batch| file.write(vec![batch]));
        assert!(matches!(written.and_then(|()| file.settle()), Err(Error::Cancelled)));
    }

    #[test]
    fn a_cancelled_run_ends_no_file() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let formats =
            [Format::Arrow, Format::Parquet, Format::Jsonl, Format::MsgpackArrays].into_iter();
        for (number, format) in formats.enumerate() {
            let coding = RowEncoding { format, layout: RowLayout::Full, compression: None };
            let control = Control::default();
            let batches = batches(2, 1000);
            let path = dir.path().join(number.to_string());
            let threads = RowThreads::new(&control);
            let shard = Shard::create(&path, coding, &batches[0].schema(), &threads);
            let mut shard = shard.expect("room");
            batches.iter().try_for_each(|batch| shard.write(batch)).expect("room");
            control.cancel();
            let closed = shard.end("shard".to_owned()).and_then(|it| it.wait().map(drop));
            assert!(matches!(closed, Err(Error::Cancelled)), "{format:?}: {closed:?}");
        }
    }
}
