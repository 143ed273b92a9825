//! [`BoundedPages`]: the bytes of a Parquet file, with the lengths in its page headers checked.

use std::io::{BufReader, Read};
use std::ops::Range;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use crate::storage::{RangeFile, RangeFileReader};

/// The first and last bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// Bytes at the end of a file: the length of its footer, and the magic.
const ENDING: u64 = 8;

/// Bytes of a header that are read: enough for its first three numbers.
const HEADER: usize = 24;

/// Lengths up to this many bytes are always believed: reserving them does no harm.
const BELIEVED: u64 = 64 << 20;

/// A file, and the limit of the lengths in its pages.
pub(super) struct BoundedPages {
    file: RangeFile,
    size: u64,
    /// The largest ratio of a page's decompressed length to its bytes.
    expansion: u64,
}

impl BoundedPages {
    pub(super) fn new(file: RangeFile, size: u64) -> Self {
        Self { file, size, expansion: 1 }
    }

    /// A copy of the file for another reader.
    pub(super) fn try_clone(&self) -> Result<Self> {
        Ok(Self { file: self.file.try_clone()?, size: self.size, expansion: self.expansion })
    }

    /// Checks the whole file against its footer, and sets the limit for its pages.
    ///
    /// # Errors
    ///
    /// A footer whose file has other bytes before it, such as files joined with `cat`.
    pub(super) fn check(&mut self, metadata: &ParquetMetaData) -> Result<()> {
        let parts = || metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
        self.expansion = parts().map(|part| expansion(part.compression())).max().unwrap_or(1);
        let mut ending = [0; 4];
        self.reader(self.size.saturating_sub(ENDING))?.read_exact(&mut ending)?;
        let footer_at = self.size.saturating_sub(ENDING + u64::from(u32::from_le_bytes(ending)));
        let named = parts().map(end_of).max().unwrap_or(MAGIC.len() as u64);
        // Bytes that the footer does not account for lie before the file.
        let Some(before) = footer_at.checked_sub(named).filter(|before| *before > 0) else {
            return Ok(());
        };
        let mut start = Vec::new();
        self.reader(before)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
        if start == MAGIC {
            return Err(ParquetError::General(format!(
                "another file lies in its first {before} bytes; take them apart"
            )));
        }
        Ok(())
    }

    /// Says which columns will be read of which row groups.
    pub(super) fn plan(
        &self,
        metadata: &ParquetMetaData,
        groups: &[usize],
        needed: impl Fn(&ColumnChunkMetaData) -> bool,
    ) {
        let of_group = |number: &usize| {
            let columns = metadata.row_group(*number).columns();
            let start = columns.iter().map(start_of).min().unwrap_or(0);
            (start, columns.iter().filter(|part| needed(part)).map(bytes_of).collect())
        };
        self.file.plan(|| groups.iter().map(of_group).collect());
    }

    fn reader(&self, start: u64) -> Result<BufReader<RangeFileReader>> {
        Ok(self.file.reader(start)?)
    }
}

impl Length for BoundedPages {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for BoundedPages {
    type T = BufReader<RangeFileReader>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut header = Vec::with_capacity(HEADER);
        let mut reader = self.reader(start)?;
        let peeked = reader.by_ref().take(HEADER as u64).read_to_end(&mut header)?;
        reader.seek_relative(-i64::try_from(peeked).unwrap_or(0))?;
        if let Some((length, compressed)) = lengths(&header)
            && length > compressed.saturating_mul(self.expansion).max(BELIEVED)
        {
            return Err(ParquetError::General(format!(
                "the page at byte {start} of {compressed} bytes says that it is {length} long"
            )));
        }
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.size) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at byte {start} are not within the {} of the file",
                self.size
            )));
        }
        let bytes = self.file.bytes(start, length)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF("the file has become shorter".to_owned()));
        }
        Ok(bytes)
    }
}

/// The largest ratio of decompressed to compressed bytes of a compression.
fn expansion(compression: Compression) -> u64 {
    match compression {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => 255,
        Compression::GZIP(_) | Compression::LZO => 1032,
        // Zstandard: a block of 128 KiB in four bytes. Brotli can exceed it, but no writer does.
        Compression::ZSTD(_) | Compression::BROTLI(_) => 32 << 10,
    }
}

/// The first byte of a column, by the footer.
fn start_of(part: &ColumnChunkMetaData) -> u64 {
    let start = part.dictionary_page_offset().unwrap_or_else(|| part.data_page_offset());
    u64::try_from(start.min(part.data_page_offset())).unwrap_or(0)
}

/// The bytes of the pages of a column, by the footer.
fn bytes_of(part: &ColumnChunkMetaData) -> Range<u64> {
    let start = start_of(part);
    start..start.saturating_add(u64::try_from(part.compressed_size()).unwrap_or(0))
}

/// The end of the last byte of a column, by the footer.
fn end_of(part: &ColumnChunkMetaData) -> u64 {
    let start = part.dictionary_page_offset().unwrap_or_else(|| part.data_page_offset());
    let pairs = [
        (Some(start), Some(part.compressed_size())),
        (part.column_index_offset(), part.column_index_length().map(i64::from)),
        (part.offset_index_offset(), part.offset_index_length().map(i64::from)),
        (part.bloom_filter_offset(), part.bloom_filter_length().map(i64::from)),
    ];
    let ends = pairs.into_iter().filter_map(|(start, length)| start?.checked_add(length?));
    ends.filter_map(|end| u64::try_from(end).ok()).max().unwrap_or(0)
}

/// The decompressed and the stored length of a page, if these bytes begin its header: three numbers of
/// Thrift's compact protocol; the first is the kind of the page.
fn lengths(header: &[u8]) -> Option<(u64, u64)> {
    let mut rest = header;
    let mut number = || {
        let (kind, after) = rest.split_first()?;
        // The next field, a 32-bit integer.
        if *kind != 0x15 {
            return None;
        }
        let (mut value, mut read) = (0_u64, 0);
        for byte in after.iter().take(5) {
            value |= u64::from(byte & 0x7f) << (7 * read);
            read += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        rest = after.get(read..)?;
        // Zigzag: the lowest bit is the sign.
        (value & 1 == 0).then_some(value >> 1)
    };
    number()?;
    Some((number()?, number()?))
}
