//! The size of a WebP picture.

use std::io::{Read, Seek};

use crate::{PictureFault, Size, orientation::PictureMetadata, reader::HeaderReader};

const EXIF_FLAG: u8 = 8;
const XMP_FLAG: u8 = 4;
const ANIMATION_FLAG: u8 = 2;

/// True if a file that starts so is read as WebP.
pub(crate) fn is_accepted(start: &[u8]) -> bool {
    start.starts_with(b"RIFF")
        && matches!(start.get(8..16), Some(b"WEBPVP8 " | b"WEBPVP8L" | b"WEBPVP8X"))
}

/// Reads the size of the canvas. The library behind Pillow opens only a whole file, so a shorter one is refused.
pub(crate) fn size<R: Read + Seek>(reader: &mut HeaderReader<R>) -> Result<Size, PictureFault> {
    let end = 8 + u64::from(u32::from_le_bytes(reader.array(4)?));
    reader.require(end)?;
    let first = WebpChunk::read(reader, 12, end)?;
    if &first.name != b"VP8X" {
        return frame_size(reader, first);
    }
    let [flags, _, _, _, w0, w1, w2, h0, h1, h2] = reader.array(first.start)?;
    let side = |low, middle, high| 1 + u32::from_le_bytes([low, middle, high, 0]);
    let canvas = Size { width: side(w0, w1, w2), height: side(h0, h1, h2) };
    let mut metadata = PictureMetadata::default();
    let mut has_frame = false;
    let mut offset = first.end;
    while offset < end {
        let chunk = WebpChunk::read(reader, offset, end)?;
        offset = chunk.end;
        match &chunk.name {
            b"EXIF" if flags & EXIF_FLAG != 0 && metadata.exif.is_none() => {
                metadata.exif = Some(reader.bytes(chunk.start, chunk.length)?.to_vec());
            }
            b"XMP " if flags & XMP_FLAG != 0 && metadata.xmp.is_none() => {
                metadata.xmp = Some(reader.bytes(chunk.start, chunk.length)?.to_vec());
            }
            b"ANMF" => has_frame |= flags & ANIMATION_FLAG != 0,
            b"VP8 " | b"VP8L" if !has_frame => {
                let frame = frame_size(reader, chunk)?;
                if flags & ANIMATION_FLAG != 0 || frame != canvas {
                    return Err(reader.damaged("a frame that is not the canvas"));
                }
                has_frame = true;
            }
            _ => {}
        }
    }
    if !has_frame {
        return Err(reader.damaged("no frame"));
    }
    Ok(if metadata.is_turned()? { canvas.turned() } else { canvas })
}

/// The size in a chunk of pixels, lossy or lossless.
fn frame_size<R: Read + Seek>(
    reader: &mut HeaderReader<R>,
    chunk: WebpChunk,
) -> Result<Size, PictureFault> {
    if &chunk.name == b"VP8 " {
        let [t0, t1, t2, s0, s1, s2, w0, w1, h0, h1] = reader.array(chunk.start)?;
        let tag = u32::from_le_bytes([t0, t1, t2, 0]);
        // From the lowest bit: not a key frame; the version, of which there are four, in three bits; shown; the bytes of
        // the first part.
        let is_shown = tag & 0b1_1001 == 0b1_0000 && u64::from(tag >> 5) < chunk.length;
        if !is_shown || [s0, s1, s2] != [0x9D, 0x01, 0x2A] {
            return Err(reader.damaged("no frame to show"));
        }
        let side = |bytes| u32::from(u16::from_le_bytes(bytes) & 0x3FFF);
        Ok(Size { width: side([w0, w1]), height: side([h0, h1]) })
    } else {
        let [signature, bits @ ..]: [u8; 5] = reader.array(chunk.start)?;
        let bits = u32::from_le_bytes(bits);
        // The upper three bits are the version.
        if signature != 0x2F || bits >> 29 != 0 {
            return Err(reader.damaged("no lossless frame"));
        }
        Ok(Size { width: 1 + (bits & 0x3FFF), height: 1 + (bits >> 14 & 0x3FFF) })
    }
}

/// A named part of the file.
#[derive(Clone, Copy, Debug)]
struct WebpChunk {
    name: [u8; 4],
    start: u64,
    length: u64,
    /// The offset of the next chunk. Chunks are padded to an even length.
    end: u64,
}

impl WebpChunk {
    /// Reads the header of the chunk at `offset`, in a file whose chunks end at `end`.
    fn read<R: Read + Seek>(
        reader: &mut HeaderReader<R>,
        offset: u64,
        end: u64,
    ) -> Result<Self, PictureFault> {
        let [n0, n1, n2, n3, l0, l1, l2, l3] = reader.array(offset)?;
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        let start = offset + 8;
        let chunk =
            Self { name: [n0, n1, n2, n3], start, length, end: start + length.next_multiple_of(2) };
        if chunk.end > end {
            return Err(reader.damaged("a chunk that is longer than the file"));
        }
        Ok(chunk)
    }
}
