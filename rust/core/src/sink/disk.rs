//! [`Disk`]: a file that is hashed and written to the disk by a background thread while it is being filled.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::regular;
use crate::threads;
use crate::writeback::{CachePolicy, Writeback};

/// Bytes of one write: enough to keep the disk busy, few compared with the memory of a run.
const PIECE: usize = 4 << 20;

/// The alignment, in memory and in the file, of writes that bypass the system's cache. No disk requires more.
const PAGE: usize = 4096;

/// A file that is hashed and written to the disk by a background thread while it is being filled.
///
/// The thread starts with the second piece, and ends when this is dropped. Only [`Disk::finish`] waits for
/// it.
pub(super) struct Disk {
    /// The piece that is being filled.
    piece: AlignedBuffer,
    /// The hash of all pieces before. The thread that fills a piece hashes it: the disk would idle if the
    /// other one did.
    hasher: Box<blake3::Hasher>,
    target: Arc<Mutex<DiskFile>>,
    thread: Option<WriterThread>,
}

/// The thread, the channel of pieces to it, and the channel of empty pieces from it.
struct WriterThread {
    full: SyncSender<AlignedBuffer>,
    empty: Receiver<AlignedBuffer>,
    handle: JoinHandle<io::Result<()>>,
}

impl Disk {
    /// Creates the file at `path`, where there must be none.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = regular::create(path)?;
        Ok(Self::of(file, direct(path)))
    }

    /// Writes to `file`, and whole pieces to `direct` if given.
    fn of(file: File, direct: Option<File>) -> Self {
        let writeback = Writeback::new(0, CachePolicy::Release);
        let target = Arc::new(Mutex::new(DiskFile { file, direct, bytes: 0, writeback }));
        Self { piece: AlignedBuffer::new(), hasher: Box::default(), target, thread: None }
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> io::Result<WrittenFile> {
        self.hasher.update(self.piece.bytes());
        self.join()?;
        lock(&self.target).append(self.piece.bytes())?;
        let target = Arc::into_inner(self.target).expect("the thread has ended");
        let target = target.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(WrittenFile { target, hasher: self.hasher })
    }

    /// Hands the piece to the thread, and takes an empty one.
    fn hand_over(&mut self) -> io::Result<()> {
        self.hasher.update(self.piece.bytes());
        if self.thread.is_none() {
            // Where the system gives no more threads, this thread writes.
            self.thread = WriterThread::start(&self.target).ok();
        }
        let Some(thread) = &self.thread else {
            lock(&self.target).append(self.piece.bytes())?;
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

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.bytes().len() == PIECE {
            self.hand_over()?;
        }
        Ok(self.piece.fill(bytes))
    }

    /// Does nothing: all pieces but the last have to be full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriterThread {
    fn start(target: &Arc<Mutex<DiskFile>>) -> io::Result<Self> {
        let target = Arc::clone(target);
        let (full, pieces) = sync_channel::<AlignedBuffer>(1);
        let (back, empty) = sync_channel(2);
        let handle = threads::start("fastpack-disk", move || {
            // Two pieces besides the one being written: one is being filled, and one is ready for the disk.
            let mut spare = AlignedBuffer::new();
            let _ = back.send(AlignedBuffer::new());
            loop {
                // After the last full piece was handed over, no thread may be waiting for this one.
                let _ = back.send(spare);
                let Ok(piece) = pieces.recv() else { return Ok(()) };
                lock(&target).append(piece.bytes())?;
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
    /// A handle of the file that bypasses the system's cache: data that is written once and read much later would only
    /// wait there for the disk, and displace the data of others. `None` where the system does not allow it.
    direct: Option<File>,
    bytes: u64,
    writeback: Writeback,
}

impl DiskFile {
    /// Appends a piece. All pieces before it were full.
    fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        if piece.len() != PIECE || !self.is_written_directly(piece) {
            self.file.seek(SeekFrom::Start(self.bytes))?;
            self.file.write_all(piece)?;
        }
        self.bytes += piece.len() as u64;
        if self.direct.is_none() {
            self.writeback.wrote(&self.file, self.bytes)?;
        }
        Ok(())
    }

    /// Writes a piece, bypassing the cache. If that fails, the piece is written through the cache, which
    /// works or reports the error.
    fn is_written_directly(&mut self, piece: &[u8]) -> bool {
        let written = self.direct.as_mut().is_some_and(|direct| direct.write_all(piece).is_ok());
        if !written {
            self.direct = None;
        }
        written
    }
}

/// A file that was written completely.
pub(super) struct WrittenFile {
    target: DiskFile,
    hasher: Box<blake3::Hasher>,
}

impl WrittenFile {
    /// Overwrites `bytes` at an offset, and hashes the file again.
    pub(super) fn overwrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = &mut self.target.file;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)?;
        file.rewind()?;
        self.hasher.reset();
        self.hasher.update_reader(file)?;
        Ok(())
    }

    /// Syncs the file, so that it survives a loss of power. Returns its number of bytes and hash.
    pub(super) fn sync(mut self) -> io::Result<(u64, blake3::Hash)> {
        self.target.writeback.finish()?;
        self.target.file.sync_all()?;
        Ok((self.target.bytes, self.hasher.finalize()))
    }
}

/// Opens a file for writes that bypass the system's cache, if the system allows it.
fn direct(path: &Path) -> Option<File> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::NOFOLLOW;
        let flags = flags.bits().cast_signed();
        std::fs::OpenOptions::new().write(true).custom_flags(flags).open(path).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        None
    }
}

/// Bytes that begin at a multiple of [`PAGE`] in memory.
struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    fn new() -> Self {
        let mut memory: Vec<u8> = Vec::with_capacity(PAGE + PIECE);
        // The alignment is a hint. Without it, the system may refuse the piece, and the cache is used.
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        memory.resize(start, 0);
        Self { memory, start }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// Takes as many of `bytes` as fit, and returns how many.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(PIECE - self.bytes().len());
        self.memory.extend_from_slice(&bytes[..taken]);
        taken
    }

    fn clear(&mut self) {
        self.memory.truncate(self.start);
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
            for directly in [true, false] {
                let bytes = bytes(count);
                let file =
                    File::options().read(true).write(true).create(true).truncate(true).open(&path);
                let direct = direct(&path).filter(|_| directly);
                let mut disk = Disk::of(file.expect("a file"), direct);
                for part in bytes.chunks(step) {
                    disk.write_all(part).expect("room for it");
                }
                assert_eq!(disk.thread.is_some(), count > PIECE, "{count} bytes");
                let (length, hash) = disk.finish().and_then(WrittenFile::sync).expect("a disk");
                assert_eq!((length, hash), (count as u64, blake3::hash(&bytes)));
                assert!(
                    std::fs::read(&path).expect("the file") == bytes,
                    "{count} bytes by {step}"
                );
            }
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_written_to() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        std::fs::write(&path, "mine").expect("room for it");
        let refused = Disk::create(&path).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "mine");
    }

    #[test]
    fn what_cannot_be_written_directly_is_written_the_other_way() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        let bytes = bytes(2 * PIECE);
        let mut disk = Disk::create(&path).expect("a file");
        disk.write_all(&bytes).expect("room for it");
        // Opened for reading only: every write to it fails.
        lock(&disk.target).direct = File::open(&path).ok();
        let written = disk.finish().expect("room for it");
        assert!(written.target.direct.is_none());
        written.sync().expect("a disk");
        assert!(std::fs::read(&path).expect("the file") == bytes);
    }

    #[test]
    fn an_overwritten_file_is_hashed_anew() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard");
        let mut bytes = bytes(PIECE + 5);
        let mut disk = Disk::create(&path).expect("a file");
        disk.write_all(&bytes).expect("room for it");
        let mut written = disk.finish().expect("room for it");
        written.overwrite(1, b"xyz").expect("room for it");
        bytes[1..4].copy_from_slice(b"xyz");
        let (_, hash) = written.sync().expect("a disk");
        assert_eq!(hash, blake3::hash(&bytes));
        assert!(std::fs::read(&path).expect("the file") == bytes);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_by_the_next_pieces_or_at_the_end() {
        let full = Path::new("/dev/full");
        for count in [1, PIECE + 1, 10 * PIECE] {
            let file = File::options().read(true).write(true).open(full).expect("a device");
            let mut disk = Disk::of(file, direct(full));
            let failed = disk.write_all(&bytes(count)).and_then(|()| disk.finish().map(drop));
            assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        }
    }
}
