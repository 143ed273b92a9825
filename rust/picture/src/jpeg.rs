//! The size of a JPEG picture.

use std::io::{Read, Seek};

use crate::{
    PictureFault, Size,
    orientation::PictureMetadata,
    reader::{HeaderReader, LONGEST_FIELD},
};

const START_OF_SCAN: u8 = 0xDA;

/// Reads the segments up to the first scan.
pub(crate) fn size<R: Read + Seek>(reader: &mut HeaderReader<R>) -> Result<Size, PictureFault> {
    let mut size = None;
    let mut metadata = PictureMetadata::default();
    let mut has_density = false;
    // After the start of the image, and the first byte of the first marker.
    let mut offset = 3;
    loop {
        let marker = reader.byte(offset)?;
        offset += 1;
        match marker {
            // Padding: the next byte may be the marker.
            0xFF => continue,
            // Not a marker, but an escaped byte. So are markers without a segment passed over.
            0x00 | 0xC8 | 0xD0..=0xD9 | 0xF0..=0xFD => {}
            0x01..=0xBF => return Err(reader.damaged(format!("the marker {marker:#04x}"))),
            _ => {
                let length = u64::from(u16::from_be_bytes(reader.array(offset)?)).max(2);
                let (start, count) = (offset + 2, length - 2);
                offset += length;
                reader.require(offset)?;
                match marker {
                    START_OF_SCAN => break,
                    0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF | 0xDE => {
                        size = Some(frame_size(reader, start, count)?);
                    }
                    0xE0 => has_density |= is_density(reader.bytes(start, count)?),
                    0xE1 => read_metadata(&mut metadata, reader, start, count)?,
                    _ => {}
                }
            }
        }
        while reader.byte(offset)? != 0xFF {
            offset += 1;
        }
        offset += 1;
    }
    let size = size.ok_or_else(|| reader.damaged("no frame before the first scan"))?;
    let is_turned = match metadata.is_turned() {
        // Pillow looks for the density in EXIF if JFIF does not tell it, and forgives what it finds there.
        Err(PictureFault::Damaged { .. } | PictureFault::Cut { .. }) if !has_density => false,
        is_turned => is_turned?,
    };
    Ok(if is_turned { size.turned() } else { size })
}

/// The size in the header of a frame.
fn frame_size<R: Read + Seek>(
    reader: &mut HeaderReader<R>,
    start: u64,
    count: u64,
) -> Result<Size, PictureFault> {
    if count < 6 || !count.is_multiple_of(3) {
        return Err(reader.damaged(format!("a frame header of {count} bytes")));
    }
    let [bits, h0, h1, w0, w1, layers] = reader.array(start)?;
    if bits != 8 || ![1, 3, 4].contains(&layers) {
        return Err(reader.damaged(format!("{layers} layers of {bits} bits")));
    }
    let side = |bytes| u32::from(u16::from_be_bytes(bytes));
    Ok(Size { width: side([w0, w1]), height: side([h0, h1]) })
}

/// True if a JFIF segment gives the pixels of an inch or a centimetre.
fn is_density(segment: &[u8]) -> bool {
    segment.starts_with(b"JFIF") && segment.len() >= 12 && matches!(segment[7], 1 | 2)
}

/// Takes EXIF or XMP from an APP1 segment. EXIF of several segments is one.
fn read_metadata<R: Read + Seek>(
    metadata: &mut PictureMetadata,
    reader: &mut HeaderReader<R>,
    start: u64,
    count: u64,
) -> Result<(), PictureFault> {
    const EXIF: &[u8] = b"Exif\0\0";
    const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
    let segment = reader.bytes(start, count.min(XMP.len() as u64))?;
    if segment.starts_with(EXIF) {
        let segment = reader.bytes(start, count)?;
        match &mut metadata.exif {
            Some(exif) => exif.extend_from_slice(&segment[EXIF.len()..]),
            exif => *exif = Some(segment.to_vec()),
        }
        if metadata.exif.as_ref().is_some_and(|exif| exif.len() as u64 > LONGEST_FIELD) {
            return Err(reader.damaged("more than 16 MiB of EXIF"));
        }
    } else if segment == XMP {
        metadata.xmp = Some(reader.bytes(start, count)?[XMP.len()..].to_vec());
    }
    Ok(())
}
