//! [`DiskWriter`]: a file that is hashed and written to the disk by a background thread while it is being filled.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::util::disk::parts::{FileHash, PartsHasher};
use crate::util::disk::regular::{self, PIECE as READ};
use crate::util::disk::writeback::{CachePolicy, Writeback};
use crate::util::threads;

/// Bytes of one write: so few that they are still in the processor's caches when the thread hashes them.
const PIECE: usize = 1 << 20;

/// A file that is hashed and written to the disk by a background thread while it is being filled.
///
/// The thread starts with the second piece, and ends when this is dropped. Only [`DiskWriter::finish`] waits for
/// it.
pub(crate) struct DiskWriter {
    /// The piece that is being filled.
    piece: Vec<u8>,
    target: Arc<Mutex<DiskFile>>,
    thread: Option<WriterThread>,
}

/// The thread, the channel of pieces to it, and the channel of empty pieces from it.
struct WriterThread {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    handle: JoinHandle<io::Result<()>>,
}

impl DiskWriter {
    /// Creates the file at `path`, where there must be none.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        regular::create(path).map(Self::of)
    }

    fn of(file: File) -> Self {
        let writeback = Writeback::new(0, CachePolicy::Release);
        let target = Arc::new(Mutex::new(DiskFile {
            file,
            bytes: 0,
            hasher: PartsHasher::default(),
            writeback,
        }));
        Self { piece: Vec::with_capacity(PIECE), target, thread: None }
    }

    /// Writes the rest.
    pub(crate) fn finish(mut self) -> io::Result<WrittenFile> {
        self.join()?;
        lock(&self.target).append(&self.piece)?;
        let target = Arc::into_inner(self.target).expect("the thread has ended");
        let target = target.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(WrittenFile(target))
    }

    /// Hands the piece to the thread, and takes an empty one.
    fn hand_over(&mut self) -> io::Result<()> {
        if self.thread.is_none() {
            // Where the system gives no more threads, this thread writes.
            self.thread = WriterThread::start(&self.target).ok();
        }
        let Some(thread) = &self.thread else {
            lock(&self.target).append(&self.piece)?;
            self.piece.clear();
            return Ok(());
        };
        let handed = thread.empty.recv().is_ok_and(|empty| {
            let full = mem::replace(&mut self.piece, empty);
            thread.full.send(full).is_ok()
        });
        // The thread ends early only after a failure.
        if handed { Ok(()) } else { self.join().and(Err(io::ErrorKind::BrokenPipe.into())) }
    }

    /// Waits for the thread to end.
    fn join(&mut self) -> io::Result<()> {
        let Some(WriterThread { full, handle, .. }) = self.thread.take() else { return Ok(()) };
        drop(full);
        handle.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Write for DiskWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE {
            self.hand_over()?;
        }
        let taken = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Does nothing: the last piece is written by [`DiskWriter::finish`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriterThread {
    fn start(target: &Arc<Mutex<DiskFile>>) -> io::Result<Self> {
        let target = Arc::clone(target);
        let (full, pieces) = sync_channel::<Vec<u8>>(1);
        let (back, empty) = sync_channel(2);
        let handle = threads::start("fastpack-disk", move || {
            // Two pieces besides the one being written: one is being filled, and one is ready for the disk.
            let mut spare = Vec::with_capacity(PIECE);
            let _ = back.send(Vec::with_capacity(PIECE));
            loop {
                // After the last full piece was handed over, no thread may be waiting for this one.
                let _ = back.send(spare);
                let Ok(piece) = pieces.recv() else { return Ok(()) };
                lock(&target).append(&piece)?;
                spare = piece;
                spare.clear();
            }
        })?;
        Ok(Self { full, empty, handle })
    }
}

/// The file that pieces are written to.
struct DiskFile {
    file: File,
    bytes: u64,
    hasher: PartsHasher,
    writeback: Writeback,
}

impl DiskFile {
    fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        self.hasher.update(piece);
        self.file.write_all(piece)?;
        self.bytes += piece.len() as u64;
        self.writeback.wrote(&self.file, self.bytes)
    }
}

/// A file that was written completely.
pub(crate) struct WrittenFile(DiskFile);

impl WrittenFile {
    /// Overwrites `bytes` at an offset, and hashes the file again.
    pub(crate) fn overwrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let DiskFile { file, hasher, .. } = &mut self.0;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)?;
        file.rewind()?;
        *hasher = PartsHasher::default();
        let mut piece = vec![0; READ];
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => hasher.update(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Syncs the file, so that it survives a loss of power. Returns its number of bytes and its hashes.
    pub(crate) fn sync(self) -> io::Result<(u64, FileHash)> {
        let DiskFile { file, bytes, hasher, mut writeback } = self.0;
        writeback.finish()?;
        file.sync_all()?;
        Ok((bytes, hasher.finish()))
    }
}

fn lock(target: &Mutex<DiskFile>) -> MutexGuard<'_, DiskFile> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: usize) -> Vec<u8> {
        (0..251_u8).cycle().take(count).collect()
    }

    #[test]
    fn a_file_is_what_was_written() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        for (count, step) in
            [(0, 1), (1, 1), (PIECE, 1 << 20), (2 * PIECE + 1, 999), (5 * PIECE + 77, PIECE + 3)]
        {
            let bytes = bytes(count);
            let file = File::options().write(true).create(true).truncate(true).open(&path);
            let mut disk = DiskWriter::of(file.expect("a file"));
            for part in bytes.chunks(step) {
                disk.write_all(part).expect("room for it");
            }
            assert_eq!(disk.thread.is_some(), count > PIECE, "{count} bytes");
            let (length, hash) = disk.finish().and_then(WrittenFile::sync).expect("a disk");
            assert_eq!((length, hash.whole), (count as u64, blake3::hash(&bytes)));
            assert!(std::fs::read(&path).expect("the file") == bytes, "{count} bytes by {step}");
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_written_to() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        std::fs::write(&path, "mine").expect("room for it");
        let refused = DiskWriter::create(&path).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "mine");
    }

    #[test]
    fn an_overwritten_file_is_hashed_anew() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        let mut bytes = bytes(PIECE + 5);
        let mut disk = DiskWriter::create(&path).expect("a file");
        disk.write_all(&bytes).expect("room for it");
        let mut written = disk.finish().expect("room for it");
        written.overwrite(1, b"xyz").expect("room for it");
        bytes[1..4].copy_from_slice(b"xyz");
        let (_, hash) = written.sync().expect("a disk");
        assert_eq!(hash.whole, blake3::hash(&bytes));
        assert!(std::fs::read(&path).expect("the file") == bytes);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_by_the_next_pieces_or_at_the_end() {
        let full = Path::new("/dev/full");
        for count in [1, PIECE + 1, 10 * PIECE] {
            let file = File::options().write(true).open(full).expect("a device");
            let mut disk = DiskWriter::of(file);
            let failed = disk.write_all(&bytes(count)).and_then(|()| disk.finish().map(drop));
            assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        }
    }
}
