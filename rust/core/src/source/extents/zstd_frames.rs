//! [`ZstdFrames`]: the frames of a zstd file of lines. A decoder can begin at each.
//!
//! They come from the seek table at the end of the file, as the seekable format of zstd has it. Without one the headers of
//! the blocks of a local file are read, without decoding them.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::frame_lines::open_lines;
use super::line_extent::text_of;
use crate::error::{Error, Result};
use crate::source::compression::Compression;
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::source::formats::format::Container;
use crate::source::index_lines::is_index_line;
use crate::source::sizes::{BLOCK_BYTES, PEEKED};
use crate::storage::OpenFile;
use crate::util::control::Control;

/// The first bytes of a frame.
const FRAME: u32 = 0xFD2F_B528;

/// The first bytes of a frame that decoders skip, whatever the last four bits are.
pub(crate) const SKIPPED: u32 = 0x184D_2A50;

/// The first bytes of a seek table.
pub(crate) const SEEK_TABLE: u32 = 0x184D_2A5E;

/// The last bytes of a seek table.
pub(crate) const SEEKABLE: u32 = 0x8F92_EAB1;

/// Bytes after the entries of a seek table: their number, a byte of flags, and [`SEEKABLE`].
pub(crate) const FOOTER: u64 = 9;

/// The least bytes of a frame. Smaller ones are taken together, so that their number stays small.
const LEAST: u64 = 16 << 10;

/// The most bytes of a frame in a file without a seek table. Entering a larger one saves little.
const MOST: u64 = 64 << 20;

/// The most bytes of the header of a frame.
const HEADER: usize = 18;

/// Bytes that are read at a time to find headers: a page.
const WINDOW: usize = 4 << 10;

/// A frame, or some small frames one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZstdFrame {
    /// Its bytes of the file.
    pub(crate) range: Range<u64>,
    /// Its decoded bytes, or a lower bound of them.
    pub(crate) decoded: u64,
}

/// The frames of a file, two or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZstdFrames {
    pub(crate) frames: Vec<ZstdFrame>,
    /// True if an index line stands before each record.
    pub(crate) indexed: bool,
}

impl ZstdFrames {
    /// The frames of a file; `None` if it is not entered at frames: a file of another kind, of one frame, or damaged.
    pub(crate) fn of(file: &SourceFile, control: &Control) -> Result<Option<Self>> {
        if !Self::may_be_of(file) {
            return Ok(None);
        }
        let Some(frames) = frames(file, control)? else { return Ok(None) };
        let mut input = InputBytes::open(&file.location, file.format.compression)?;
        let start = text_of(input.peek(PEEKED, control)?);
        if file.format.container == Container::Json && start.starts_with(b"[") {
            return Ok(None);
        }
        let indexed = start.split(|byte| *byte == b'\n').next().is_some_and(is_index_line);
        Ok(Some(Self { frames, indexed }))
    }

    /// True if a file is of a kind that is entered at frames.
    pub(crate) fn may_be_of(file: &SourceFile) -> bool {
        let is_text = matches!(file.format.container, Container::Lines | Container::Json);
        is_text && file.format.compression == Some(Compression::Zstd)
    }

    /// A frame of a file in tests.
    #[cfg(test)]
    pub(crate) fn frame(range: Range<u64>) -> ZstdFrame {
        ZstdFrame { range, decoded: 0 }
    }

    /// The identity of the first line that begins in the frame `number`: lines are identified by the frame that they begin
    /// in, and their place in it.
    pub(crate) fn first_line(number: usize) -> u64 {
        ((number as u64) << 32) + 1
    }

    /// The number of the line with an identity.
    pub(crate) fn line(&self, file: &SourceFile, identity: u64, control: &Control) -> Result<u64> {
        let (number, place) = (identity >> 32, identity & u64::from(u32::MAX));
        let frame = usize::try_from(number).ok().and_then(|number| self.frames.get(number));
        match frame {
            Some(frame) if number > 0 => {
                let mut before = open_lines(file, 0..frame.range.start);
                let mut newlines = 0;
                let mut bytes = Vec::new();
                while before.fill(&mut bytes, BLOCK_BYTES, control)? > 0 {
                    newlines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
                    bytes.clear();
                }
                Ok(newlines + place)
            }
            _ => Ok(place),
        }
    }
}

/// The frames of a file, if they are found and are two or more.
fn frames(file: &SourceFile, control: &Control) -> Result<Option<Vec<ZstdFrame>>> {
    let found = match seek_table(file) {
        Ok(None) if !file.location.is_remote() => walked(file, control)?,
        found => found.map_err(Error::io(&*file.path))?,
    };
    Ok(found.map(join_small_frames).filter(|frames| frames.len() > 1))
}

/// The frames that a seek table lists, if the file ends with one that fits it.
fn seek_table(file: &SourceFile) -> io::Result<Option<Vec<ZstdFrame>>> {
    let Some(at) = file.size.checked_sub(FOOTER) else { return Ok(None) };
    let parts = file.location.open_parts()?;
    let footer = parts.bytes(at, 9)?;
    if footer.len() < 9 || number(&footer[5..]) != SEEKABLE {
        return Ok(None);
    }
    let size = if footer[4] & 0x80 == 0 { 8 } else { 12 };
    let count = u64::from(number(&footer));
    let table = count * size + FOOTER + 8;
    let Some(end) = file.size.checked_sub(table) else { return Ok(None) };
    let Ok(length) = usize::try_from(table) else { return Ok(None) };
    let bytes = parts.bytes(end, length)?;
    let is_whole = bytes.len() == length;
    if !is_whole || number(&bytes) != SEEK_TABLE || u64::from(number(&bytes[4..])) + 8 != table {
        return Ok(None);
    }
    let entries = &bytes[8..length - 9];
    let mut start = 0;
    let frames = entries.chunks_exact(usize::try_from(size).expect("8 or 12")).map(|entry| {
        let (bytes, decoded) = (u64::from(number(entry)), u64::from(number(&entry[4..])));
        start += bytes;
        ZstdFrame { range: start - bytes..start, decoded }
    });
    let frames: Vec<ZstdFrame> = frames.collect();
    Ok((start == end).then_some(frames))
}

/// The frames by the headers of their blocks; `None` if the file is damaged, or a frame is larger than [`MOST`].
fn walked(file: &SourceFile, control: &Control) -> Result<Option<Vec<ZstdFrame>>> {
    let opened =
        file.location.open_scattered(std::iter::empty()).map_err(Error::io(&*file.path))?;
    let path = Arc::clone(&file.path);
    let mut window = FilePage { file: opened, path, at: 0, bytes: Vec::new() };
    let mut frames = Vec::new();
    let mut at = 0;
    while at < file.size {
        control.tick()?;
        let frame = window.frame(at, control)?;
        let Some(frame) = frame.filter(|frame| frame.range.end <= file.size) else {
            return Ok(None);
        };
        at = frame.range.end;
        frames.push(frame);
    }
    Ok(Some(frames))
}

/// Frames of at least [`LEAST`] bytes: smaller ones are joined to those before them.
fn join_small_frames(frames: Vec<ZstdFrame>) -> Vec<ZstdFrame> {
    let mut joined: Vec<ZstdFrame> = Vec::new();
    for frame in frames {
        match joined.last_mut() {
            Some(last) if last.range.end - last.range.start < LEAST || frame.decoded == 0 => {
                last.range.end = frame.range.end;
                last.decoded += frame.decoded;
            }
            _ => joined.push(frame),
        }
    }
    joined
}

/// A number of four bytes, as zstd writes it.
fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A file and the page of it that was read last.
struct FilePage {
    file: OpenFile,
    path: Arc<Path>,
    at: u64,
    bytes: Vec<u8>,
}

impl FilePage {
    /// The bytes at an offset; fewer at the end of the file.
    fn bytes(&mut self, at: u64, wanted: usize) -> Result<&[u8]> {
        let inside = at >= self.at && at + wanted as u64 <= self.at + self.bytes.len() as u64;
        if !inside {
            self.bytes.clear();
            self.at = at;
            self.file.seek(SeekFrom::Start(at)).map_err(Error::io(&*self.path))?;
            let page = self.file.by_ref().take(WINDOW as u64).read_to_end(&mut self.bytes);
            page.map_err(Error::io(&*self.path))?;
        }
        let start = usize::try_from(at - self.at).expect("inside a page");
        Ok(&self.bytes[start..(start + wanted).min(self.bytes.len())])
    }

    /// The frame that begins at an offset; `None` if there is none.
    fn frame(&mut self, start: u64, control: &Control) -> Result<Option<ZstdFrame>> {
        let header = self.bytes(start, HEADER)?.to_vec();
        if header.len() < 8 {
            return Ok(None);
        }
        let (magic, descriptor) = (number(&header), header[4]);
        if magic & !0xF == SKIPPED {
            let end = start + 8 + u64::from(number(&header[4..]));
            return Ok(Some(ZstdFrame { range: start..end, decoded: 0 }));
        }
        // A frame that needs a dictionary is not decoded.
        if magic != FRAME || descriptor & 3 != 0 {
            return Ok(None);
        }
        let is_single = descriptor & 0x20 != 0;
        let window = usize::from(!is_single);
        let size = match descriptor >> 6 {
            0 => usize::from(is_single),
            flag => 1 << flag,
        };
        let decoded = content_size(&header, 5 + window, size);
        let mut at = start + (5 + window + size) as u64;
        loop {
            control.tick()?;
            let &[low, middle, high] = self.bytes(at, 3)? else { return Ok(None) };
            let block = u32::from_le_bytes([low, middle, high, 0]);
            at += 3 + match block >> 1 & 3 {
                // One byte, which is repeated.
                1 => 1,
                3 => return Ok(None),
                _ => u64::from(block >> 3),
            };
            if at - start > MOST {
                return Ok(None);
            }
            if block & 1 == 1 {
                break;
            }
        }
        at += if descriptor & 4 == 0 { 0 } else { 4 };
        Ok(Some(ZstdFrame { range: start..at, decoded: decoded.max(at - start) }))
    }
}

/// The decoded bytes of a frame, which its header tells in `size` bytes from `at` on; 0 if it does not.
fn content_size(header: &[u8], at: usize, size: usize) -> u64 {
    let mut number = [0; 8];
    let Some(bytes) = header.get(at..at + size) else { return 0 };
    number[..size].copy_from_slice(bytes);
    u64::from_le_bytes(number).saturating_add(if size == 2 { 256 } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::storage::Location;

    fn found(bytes: &[u8]) -> Option<Vec<ZstdFrame>> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.jsonl.zst");
        fs::write(&path, bytes).expect("a file");
        let control = Control::default();
        let file = SourceFile::open(Location::from(&*path), 0, &control).expect("a file");
        walked(&file, &control).expect("a file that can be read")
    }

    #[test]
    fn frames_are_found_by_the_headers_of_their_blocks() {
        // Incompressible, repeated and empty; of one block and of several; with and without a size in the header.
        let noise: Vec<u8> =
            (0..300_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let repeated = vec![b'a'; 300_000];
        let texts: [&[u8]; 5] = [b"", b"some words", &noise, &repeated, &noise[..100]];
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for (at, text) in texts.iter().enumerate() {
            let frame = if at % 2 == 0 {
                zstd::bulk::compress(text, 3)
            } else {
                zstd::stream::encode_all(*text, 3)
            };
            bytes.extend(frame.expect("memory"));
            ends.push(bytes.len() as u64);
            bytes.extend(SKIPPED.to_le_bytes());
            bytes.extend(3_u32.to_le_bytes());
            bytes.extend(b"abc");
            ends.push(bytes.len() as u64);
        }
        let frames = found(&bytes).expect("a whole file");
        let found_ends: Vec<u64> = frames.iter().map(|frame| frame.range.end).collect();
        assert_eq!(found_ends, ends);
        assert!(frames[8].decoded >= 100);
        assert_eq!(found(&bytes[..bytes.len() - 5]), None);
        bytes.extend(b"no frame");
        assert_eq!(found(&bytes), None);
    }
}
