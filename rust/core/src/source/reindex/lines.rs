//! Writes lines as zstd frames with a seek table, the seekable format of zstd.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use zstd::bulk::Compressor;

use super::part::{PART, damaged};
use crate::error::{Error, Result};
use crate::report::ledger::Reason;
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::source::extents::zstd_frames::{SEEK_TABLE, SEEKABLE};
use crate::util::control::Control;

/// The most decoded bytes of a frame: a longer line goes on in the next.
const MOST: usize = 4 * PART;

/// The level of the compression: the default of zstd.
const LEVEL: i32 = 3;

/// Writes the lines of a file, and returns the number of frames.
pub(super) fn write(
    file: &SourceFile,
    path: &Path,
    out: &mut File,
    control: &Control,
) -> Result<u64> {
    let mut input = InputBytes::open(&file.location, file.format.compression)?;
    let mut frames = SeekTable::new().map_err(Error::io(path))?;
    let mut bytes: Vec<u8> = Vec::new();
    let mut lines = 0;
    loop {
        let wanted = PART.saturating_sub(bytes.len()).max(PART / 4);
        let is_last = input.fill(&mut bytes, wanted, control)? < wanted;
        if is_last && let Some(message) = input.take_damage() {
            lines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
            return Err(damaged(file, lines + 1, Reason::Damaged, message));
        }
        let newline = memchr::memrchr(b'\n', &bytes).map(|newline| newline + 1);
        let end = match newline {
            _ if is_last => bytes.len(),
            Some(end) => end,
            None if bytes.len() >= MOST => MOST,
            None => continue,
        };
        for frame in bytes[..end].chunks(MOST) {
            frames.write(frame, out).map_err(Error::io(path))?;
        }
        lines += memchr::memchr_iter(b'\n', &bytes[..end]).count() as u64;
        bytes.drain(..end);
        if is_last {
            break;
        }
    }
    let count = frames.table.len() as u64;
    frames.finish(out).map_err(Error::io(path))?;
    Ok(count)
}

/// The frames that were written: the compressed and decoded bytes of each.
struct SeekTable {
    compressor: Compressor<'static>,
    table: Vec<(u32, u32)>,
}

impl SeekTable {
    fn new() -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.include_checksum(true)?;
        Ok(Self { compressor, table: Vec::new() })
    }

    fn write(&mut self, bytes: &[u8], out: &mut File) -> io::Result<()> {
        let frame = self.compressor.compress(bytes)?;
        let size = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
        self.table.push((size(frame.len())?, size(bytes.len())?));
        out.write_all(&frame)
    }

    /// Writes the seek table: a frame that decoders skip, of the sizes of all frames.
    fn finish(self, out: &mut File) -> io::Result<()> {
        let count = u32::try_from(self.table.len()).map_err(io::Error::other)?;
        let size = u32::try_from(self.table.len() * 8 + 9).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(self.table.len() * 8 + 17);
        let entries = self.table.iter().flat_map(|&(compressed, decoded)| [compressed, decoded]);
        for number in [SEEK_TABLE, size].into_iter().chain(entries).chain([count]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        // No checksums of frames are in the table: the frames have their own.
        bytes.push(0);
        bytes.extend_from_slice(&SEEKABLE.to_le_bytes());
        out.write_all(&bytes)
    }
}
