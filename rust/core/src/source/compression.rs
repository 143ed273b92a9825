//! [`Compression`]: the compressions of files, and their decoders.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;

/// Bytes of the file that are read at a time.
const READ_BYTES: usize = 128 << 10;

/// The largest window of a zstd frame that is decoded, as a power of two: that of `zstd --long=31`.
const ZSTD_WINDOW: u32 = 31;

/// The compression of a file. It may have several members, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip
    Gzip,
    /// Zstandard
    Zstd,
    /// bzip2
    Bzip2,
    /// xz
    Xz,
}

/// Each compression, with the first bytes of its files.
const KNOWN: [(Compression, &[u8]); 4] = [
    (Compression::Gzip, b"\x1f\x8b"),
    (Compression::Zstd, b"\x28\xb5\x2f\xfd"),
    (Compression::Bzip2, b"BZh"),
    (Compression::Xz, b"\xfd7zXZ\x00"),
];

impl Compression {
    /// The number of bytes that [`Self::by_content`] needs.
    pub(super) const LONGEST_MARK: usize = 6;

    /// The compression whose files end in `.ending`.
    pub(super) fn by_ending(ending: &str) -> Option<Self> {
        // Shards of MDS have the name of the library as their ending.
        let ending = if ending == "zstd" { Self::Zstd.ending() } else { ending };
        KNOWN.iter().find(|known| known.0.ending() == ending).map(|known| known.0)
    }

    /// The compression whose files begin with `bytes`.
    pub(super) fn by_content(bytes: &[u8]) -> Option<Self> {
        KNOWN.iter().find(|known| bytes.starts_with(known.1)).map(|known| known.0)
    }

    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zstd => "zst",
            Self::Bzip2 => "bz2",
            Self::Xz => "xz",
        }
    }

    /// The command that writes the decompressed content of a file beside it.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Gzip => "gzip -dk",
            Self::Zstd => "zstd -dk",
            Self::Bzip2 => "bzip2 -dk",
            Self::Xz => "xz -dk",
        }
    }

    /// The decompressed content of a file. `offset` follows the bytes of the file that were used.
    pub(super) fn decoder(
        self,
        file: impl Read + Send + 'static,
        offset: Arc<AtomicU64>,
    ) -> io::Result<Box<dyn Read + Send>> {
        let file = CountedReader { file: BufReader::with_capacity(READ_BYTES, file), offset };
        Ok(match self {
            Self::Gzip => Box::new(GzMembers { member: Some(GzDecoder::new(file)) }),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
                decoder.window_log_max(ZSTD_WINDOW)?;
                Box::new(decoder)
            }
            Self::Bzip2 => Box::new(MultiBzDecoder::new(file)),
            Self::Xz => Box::new(XzDecoder::new_multi_decoder(file)),
        })
    }
}

/// The members of a gzip file, and zeros behind the last, as tapes and block devices have them. GNU gzip reads it so, too.
struct GzMembers<R> {
    /// The current member; `None` behind the last.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some(mut rest) = self.member.take().map(GzDecoder::into_inner) else { break };
            let has_zeros = skip_zeros(&mut rest)?;
            if rest.fill_buf()?.is_empty() {
                break;
            }
            if has_zeros {
                let message = "something follows the zeros after the end of the gzip data";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.member = Some(GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// Skips the zeros that come next; returns whether there were any.
fn skip_zeros(file: &mut impl BufRead) -> io::Result<bool> {
    let mut skipped = false;
    loop {
        let bytes = file.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        if zeros == 0 {
            return Ok(skipped);
        }
        file.consume(zeros);
        skipped = true;
    }
}

/// A file that counts the bytes that were read of it.
struct CountedReader<R> {
    file: BufReader<R>,
    offset: Arc<AtomicU64>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.offset.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Read> BufRead for CountedReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.file.consume(amount);
        self.offset.fetch_add(amount as u64, Ordering::Relaxed);
    }
}
