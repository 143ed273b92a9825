//! [`HeaderReader`], a picture's bytes by their offset.

use std::io::{Read, Seek, SeekFrom};

use crate::PictureFault;

/// The longest field of metadata that is read, in bytes. JPEG holds 64 KiB in a segment, and editors write a few
/// hundred KiB of XMP; a PNG may claim 4 GiB.
pub(crate) const LONGEST_FIELD: u64 = 16 << 20;

/// The bytes that a read takes where the one before it ended. Most headers fit.
const BLOCK: u64 = 4096;

/// The bytes that a read takes after a jump. A PNG with many small data chunks takes one such read for each.
const LANDING: u64 = 64;

/// A reader, its length, and the bytes that were read last.
#[derive(Debug)]
pub(crate) struct HeaderReader<R> {
    reader: R,
    format: &'static str,
    length: u64,
    /// The offset of `window`.
    start: u64,
    window: Vec<u8>,
}

impl<R: Read + Seek> HeaderReader<R> {
    /// Reads `reader`, whose format faults call `format`.
    pub(crate) fn new(mut reader: R, format: &'static str) -> Result<Self, PictureFault> {
        let length = reader.seek(SeekFrom::End(0))?;
        Ok(Self { reader, format, length, start: 0, window: Vec::new() })
    }

    /// Names the format that was found.
    pub(crate) fn named(&mut self, format: &'static str) -> &mut Self {
        self.format = format;
        self
    }

    /// The length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The first 16 bytes, or fewer if there are not as many.
    pub(crate) fn start(&mut self) -> Result<&[u8], PictureFault> {
        self.bytes(0, self.length.min(16))
    }

    /// The `count` bytes from `offset` on.
    pub(crate) fn bytes(&mut self, offset: u64, count: u64) -> Result<&[u8], PictureFault> {
        if count > LONGEST_FIELD {
            return Err(self.damaged(format!("a field of {count} bytes")));
        }
        let end = offset.saturating_add(count);
        if end > self.length {
            return Err(self.cut());
        }
        let held = self.start + self.window.len() as u64;
        if offset < self.start || end > held {
            let follows = (self.start..=held).contains(&offset);
            let ahead = if follows { BLOCK } else { LANDING };
            self.window.clear();
            self.start = offset;
            self.reader.seek(SeekFrom::Start(offset))?;
            let wanted = count.max(ahead).min(self.length - offset);
            // With room for all, one call reads it.
            self.window.reserve(usize::try_from(wanted).unwrap_or(0));
            self.reader.by_ref().take(wanted).read_to_end(&mut self.window)?;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let until = from.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        if until > self.window.len() {
            // The file became shorter since its length was asked.
            return Err(self.cut());
        }
        Ok(&self.window[from..until])
    }

    /// The `N` bytes from `offset` on.
    pub(crate) fn array<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], PictureFault> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(offset, N as u64)?);
        Ok(array)
    }

    /// The byte at `offset`.
    pub(crate) fn byte(&mut self, offset: u64) -> Result<u8, PictureFault> {
        Ok(self.array::<1>(offset)?[0])
    }

    /// Refuses a file that ends before `end`.
    pub(crate) fn require(&self, end: u64) -> Result<(), PictureFault> {
        if end > self.length { Err(self.cut()) } else { Ok(()) }
    }

    /// The fault of a file that ends inside its header.
    pub(crate) fn cut(&self) -> PictureFault {
        PictureFault::Cut { format: self.format, length: self.length }
    }

    /// The fault of a header that contains `found`.
    pub(crate) fn damaged(&self, found: impl Into<String>) -> PictureFault {
        PictureFault::Damaged { format: self.format, found: found.into() }
    }
}
