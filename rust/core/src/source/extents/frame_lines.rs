//! [`FrameLines`]: the lines that begin in some frames of a zstd file.
//!
//! A line is of the frames in which the newline before it is, so the line that goes on from the frames before is passed
//! over, and the last is read on into the frames after.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::source::block::{BlockContent, BlockReader};
use crate::source::compression::Compression;
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::source::formats::lines::LineReader;
use crate::source::sizes::BLOCK_BYTES;
use crate::storage::Location;
use crate::util::control::Control;

/// The most bytes of a range that are announced to remote storage at once.
const FETCHED: u64 = 4 << 20;

/// The lines of some frames, as a reader of blocks.
pub(crate) struct FrameExtent {
    lines: LineReader,
    /// The place in the file after the content so far, and the bytes of the last.
    end: u64,
    taken: u64,
}

impl FrameExtent {
    /// The lines that begin in the frames of a range. The first has the number or identity `line`.
    pub(crate) fn open(file: &SourceFile, range: Range<u64>, line: u64, indexed: bool) -> Self {
        let end = range.start;
        let lines = LineReader::new(open_lines(file, range), indexed).starting_at(line);
        Self { lines, end, taken: 0 }
    }

    /// The number or identity of the next line.
    pub(crate) fn next_line(&self) -> Result<u64> {
        self.lines.next_line()
    }
}

impl BlockReader for FrameExtent {
    fn next_content(&mut self, control: &Control) -> Result<Option<BlockContent>> {
        let content = self.lines.next_content(control)?;
        let end = self.lines.position();
        self.taken = end.saturating_sub(self.end);
        self.end = end;
        Ok(content)
    }

    fn position(&self) -> u64 {
        self.taken
    }
}

/// The decoded lines that begin in the frames of a range.
pub(crate) fn open_lines(file: &SourceFile, range: Range<u64>) -> InputBytes {
    let offset = Arc::new(AtomicU64::new(range.start));
    let lines = FrameLines {
        location: file.location.clone(),
        size: file.size,
        decoder: None,
        step: if range.start == 0 { NextByte::Inside } else { NextByte::Before },
        rest: Vec::new(),
        offset: Arc::clone(&offset),
        range,
    };
    InputBytes::of(&file.location, Box::new(lines), offset)
}

/// The decoded bytes of the lines that begin in some frames.
struct FrameLines {
    location: Location,
    /// The size of the file.
    size: u64,
    /// The frames.
    range: Range<u64>,
    decoder: Option<Box<dyn Read + Send>>,
    step: NextByte,
    /// Bytes that were decoded with the line before the first.
    rest: Vec<u8>,
    /// Bytes of the file that were used.
    offset: Arc<AtomicU64>,
}

/// The place of the next byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextByte {
    /// In the line that goes on from the frames before.
    Before,
    /// In the frames.
    Inside,
    /// In the frames after, in the last line.
    After,
    Ended,
}

impl FrameLines {
    /// Reads decoded bytes of a range of the file.
    fn decode(&mut self, range: Range<u64>, buffer: &mut [u8]) -> io::Result<usize> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => {
                let fetched = range.start..range.end.min(range.start.saturating_add(FETCHED));
                let mut file = self.location.open_range(fetched)?;
                file.seek(SeekFrom::Start(range.start))?;
                let file = file.take(range.end - range.start);
                none.insert(Compression::Zstd.decoder(file, Arc::clone(&self.offset))?)
            }
        };
        decoder.read(buffer)
    }

    /// Passes over the line that goes on from the frames before.
    fn pass_over(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; BLOCK_BYTES];
        loop {
            let read = self.decode(self.range.clone(), &mut bytes)?;
            if read == 0 {
                self.step = NextByte::Ended;
                return Ok(());
            }
            if let Some(newline) = memchr::memchr(b'\n', &bytes[..read]) {
                self.step = NextByte::Inside;
                self.rest.extend_from_slice(&bytes[newline + 1..read]);
                return Ok(());
            }
        }
    }
}

impl Read for FrameLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.step {
                NextByte::Before => self.pass_over()?,
                NextByte::Inside if !self.rest.is_empty() => {
                    let read = self.rest.as_slice().read(buffer)?;
                    self.rest.drain(..read);
                    return Ok(read);
                }
                NextByte::Inside => {
                    let read = self.decode(self.range.clone(), buffer)?;
                    if read > 0 {
                        return Ok(read);
                    }
                    self.decoder = None;
                    let goes_on = self.range.end < self.size;
                    self.step = if goes_on { NextByte::After } else { NextByte::Ended };
                }
                NextByte::After => {
                    let before = self.offset.load(Ordering::Relaxed);
                    let read = self.decode(self.range.end..self.size, buffer)?;
                    // These bytes are counted with the frames that hold them.
                    self.offset.store(before, Ordering::Relaxed);
                    let newline = memchr::memchr(b'\n', &buffer[..read]);
                    if read == 0 || newline.is_some() {
                        self.step = NextByte::Ended;
                    }
                    return Ok(newline.map_or(read, |newline| newline + 1));
                }
                NextByte::Ended => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::source::extents::zstd_frames::ZstdFrames;

    /// The lines of an extent, each with its number or identity.
    fn lines_of(file: &SourceFile, range: Range<u64>, line: u64) -> Vec<(u64, Vec<u8>)> {
        let control = Control::default();
        let mut extent = FrameExtent::open(file, range, line, false);
        let mut lines = Vec::new();
        while let Some(content) = extent.next_content(&control).expect("a whole file") {
            let BlockContent::Lines { first_line, bytes, .. } = content else {
                panic!("{content:?}")
            };
            let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            lines.extend((first_line..).zip(text.split(|byte| *byte == b'\n').map(Vec::from)));
        }
        lines
    }

    proptest! {
        #[test]
        fn each_line_is_of_one_frame_whatever_the_cuts(
            text in "[ab\n]{0,60}",
            cuts in prop::collection::vec(0_usize..61, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
            for cut in cuts.windows(2) {
                let start = bytes.len() as u64;
                let frame = &text.as_bytes()[cut[0]..cut[1]];
                bytes.extend(zstd::bulk::compress(frame, 1).expect("memory"));
                ranges.push(start..bytes.len() as u64);
            }
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("a.jsonl.zst");
            fs::write(&path, &bytes).expect("a file");
            let control = Control::default();
            let location = Location::from(&*path);
            let file = SourceFile::open(location, 0, &control).expect("a file");
            let frames = ranges.iter().map(|range| ZstdFrames::frame(range.clone())).collect();
            let frames = ZstdFrames { frames, indexed: false };
            let mut lines = Vec::new();
            for (number, range) in ranges.into_iter().enumerate() {
                for (identity, line) in lines_of(&file, range, ZstdFrames::first_line(number)) {
                    let number = frames.line(&file, identity, &control).expect("a whole file");
                    lines.push((number, line));
                }
            }
            let wanted = text.strip_suffix('\n').unwrap_or(&text).split('\n');
            let wanted: Vec<_> = (1..).zip(wanted.map(|line| line.as_bytes().to_vec())).collect();
            prop_assert_eq!(lines, if text.is_empty() { Vec::new() } else { wanted });
        }
    }
}
