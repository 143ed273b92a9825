//! The size of a GIF picture.

use std::io::{Read, Seek};

use crate::{PictureFault, Size, reader::HeaderReader};

/// Reads the size of the screen, which the first frame enlarges if it reaches beyond.
pub(crate) fn size<R: Read + Seek>(reader: &mut HeaderReader<R>) -> Result<Size, PictureFault> {
    let [w0, w1, h0, h1, flags, _, _] = reader.array(6)?;
    let mut offset = 13 + palette_bytes(flags);
    loop {
        match reader.byte(offset)? {
            b'!' => {
                offset += 2;
                loop {
                    let length = reader.byte(offset)?;
                    offset += 1 + u64::from(length);
                    if length == 0 {
                        break;
                    }
                }
            }
            b',' => break,
            b';' => return Err(reader.damaged("no frame")),
            _ => offset += 1,
        }
    }
    let [x0, x1, y0, y1, fw0, fw1, fh0, fh1, flags] = reader.array(offset + 1)?;
    // The code size follows the palette: with it, the pixels begin.
    reader.require(offset + 11 + palette_bytes(flags))?;
    let reach = |start, length| {
        u32::from(u16::from_le_bytes(start)) + u32::from(u16::from_le_bytes(length))
    };
    let side = |screen, start, length| reach(start, length).max(u16::from_le_bytes(screen).into());
    Ok(Size {
        width: side([w0, w1], [x0, x1], [fw0, fw1]),
        height: side([h0, h1], [y0, y1], [fh0, fh1]),
    })
}

/// The bytes of the palette that `flags` announce.
fn palette_bytes(flags: u8) -> u64 {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}
