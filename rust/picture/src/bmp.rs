//! The size of a BMP picture.

use std::io::{Read, Seek};

use crate::{PictureFault, Size, reader::HeaderReader};

/// Reads the size of a BMP of Windows, or of OS/2 in its first form or its second with all fields.
pub(crate) fn size<R: Read + Seek>(reader: &mut HeaderReader<R>) -> Result<Size, PictureFault> {
    let header = u32::from_le_bytes(reader.array(14)?);
    let is_first_form = header == 12;
    if !is_first_form && ![40, 52, 56, 64, 108, 124].contains(&header) {
        return Err(reader.damaged(format!("a header of {header} bytes")));
    }
    reader.require(14 + u64::from(header))?;
    let (width, height, bits, compression);
    if is_first_form {
        let [w0, w1, h0, h1, _, _, b0, b1] = reader.array(18)?;
        (width, height) =
            (u16::from_le_bytes([w0, w1]).into(), u16::from_le_bytes([h0, h1]).into());
        (bits, compression) = (u16::from_le_bytes([b0, b1]), 0);
    } else {
        let [w0, w1, w2, w3, h0, h1, h2, h3, _, _, b0, b1, c0, c1, c2, c3] = reader.array(18)?;
        width = u32::from_le_bytes([w0, w1, w2, w3]);
        let rows = u32::from_le_bytes([h0, h1, h2, h3]);
        // The rows of a negative height run from top to bottom. Pillow looks at the upper byte alone.
        height = if h3 == 0xFF { rows.wrapping_neg() } else { rows };
        bits = u16::from_le_bytes([b0, b1]);
        compression = u32::from_le_bytes([c0, c1, c2, c3]);
    }
    // Two letters are soon found at the start of a text: the fields that say how to read it tell a picture.
    if ![1, 4, 8, 16, 24, 32].contains(&bits) || compression > 3 {
        return Err(reader.damaged(format!("{bits} bits a pixel, compression {compression}")));
    }
    Ok(Size { width, height })
}
