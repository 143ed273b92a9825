//! The width and height of a picture, from its header, turned as Pillow turns it.
//!
//! [`size()`] answers what `ImageOps.exif_transpose(Image.open(file)).size` is in Pillow, for PNG, JPEG, WebP, GIF,
//! BMP and TIFF, and decodes no pixel. A picture that Pillow cannot open is refused. These differ from Pillow:
//!
//! * Other formats are refused.
//! * A JPEG that ends before its first scan is refused, and so is a TIFF of which a tag lies past the end, unless it
//!   is a private one. Pillow opens some of them, most of them without pixels.
//! * Only parts that tell the size or the turn are examined. A damaged colour profile or quantization table, or
//!   a layout of pixels that Pillow cannot decode, goes unnoticed. A picture cut after its header still has a size.
//! * A field of metadata longer than [16 MiB](reader::LONGEST_FIELD) is refused.
//!
//! Damaged EXIF is read as Pillow 13 reads it. Pillow 12 takes the last of two orientations, not the first.
//!
//! ```
//! use std::io::Cursor;
//!
//! let gif = b"GIF89a\x03\x00\x02\x00\x00\x00\x00,\x00\x00\x00\x00\x03\x00\x02\x00\x00\x02";
//! let size = fastpack_picture::size(Cursor::new(gif))?;
//! assert_eq!((size.width, size.height), (3, 2));
//! # Ok::<(), fastpack_picture::PictureFault>(())
//! ```

mod bmp;
mod gif;
mod jpeg;
mod orientation;
mod picture_fault;
mod png;
mod reader;
mod size;
mod tiff;
mod tiff_directory;
mod webp;

use std::io::{Read, Seek};

pub use picture_fault::PictureFault;
pub use size::Size;

use reader::HeaderReader;

/// The most pixels of a picture. Pillow takes a larger one for an attack (`2 * Image.MAX_IMAGE_PIXELS`).
const MOST_PIXELS: u64 = 2 * 89_478_485;

/// Reads the size of the picture that `reader` holds from its first byte to its last.
///
/// Of a file with several frames this is the first. Reads the header and the metadata that tell the turn, and seeks
/// over the rest. An `&[u8]` is read through [`Cursor`](std::io::Cursor).
pub fn size(reader: impl Read + Seek) -> Result<Size, PictureFault> {
    let mut reader = HeaderReader::new(reader, "picture")?;
    let size = match reader.start()? {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => png::size(reader.named("PNG")),
        [0xFF, 0xD8, 0xFF, ..] => jpeg::size(reader.named("JPEG")),
        start if webp::is_accepted(start) => webp::size(reader.named("WebP")),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => gif::size(reader.named("GIF")),
        [b'B', b'M', ..] => bmp::size(reader.named("BMP")),
        start if tiff_directory::is_accepted(start) => tiff::size(reader.named("TIFF")),
        start => Err(PictureFault::unknown(start)),
    }?;
    let pixels = u64::from(size.width) * u64::from(size.height);
    if pixels == 0 || pixels > MOST_PIXELS {
        return Err(reader.damaged(format!("a size of {} x {}", size.width, size.height)));
    }
    Ok(size)
}
