//! Small pictures, made byte by byte.

use std::io::{Cursor, Write};

use fastpack_picture::{PictureFault, Size};
use flate2::{Compression, Crc, write::ZlibEncoder};

/// The size of the picture in `bytes`.
pub(crate) fn size(bytes: &[u8]) -> Result<Size, PictureFault> {
    fastpack_picture::size(Cursor::new(bytes))
}

/// The width and height of the picture in `bytes`, which has them.
pub(crate) fn sides(bytes: &[u8]) -> (u32, u32) {
    let size = size(bytes).expect("the picture has a size");
    (size.width, size.height)
}

/// A PNG of 3 x 2 pixels: `before`, the pixels, `after`.
pub(crate) fn png(before: &[Vec<u8>], after: &[Vec<u8>]) -> Vec<u8> {
    let header = png_chunk(*b"IHDR", &[0, 0, 0, 3, 0, 0, 0, 2, 8, 0, 0, 0, 0]);
    let pixels = png_chunk(*b"IDAT", &packed(&[0; 8]));
    let end = png_chunk(*b"IEND", b"");
    [b"\x89PNG\r\n\x1a\n", &header[..], &before.concat(), &pixels, &after.concat(), &end].concat()
}

pub(crate) fn png_chunk(name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(&name);
    crc.update(content);
    let length = u32::try_from(content.len()).expect("the content is short");
    [&length.to_be_bytes(), &name, content, &crc.sum().to_be_bytes()].concat()
}

/// `text` as zlib packs it.
pub(crate) fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes all")
}

/// A JPEG of 3 x 2 pixels, with `segments` before the frame. It has no pixels.
pub(crate) fn jpeg(segments: &[Vec<u8>]) -> Vec<u8> {
    let frame = jpeg_segment(0xC0, &[8, 0, 2, 0, 3, 1, 1, 0x11, 0]);
    let scan = jpeg_segment(0xDA, &[1, 1, 0, 0, 63, 0]);
    [b"\xFF\xD8", &segments.concat()[..], &frame, &scan, b"\0\0\xFF\xD9"].concat()
}

pub(crate) fn jpeg_segment(marker: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len() + 2).expect("the content is short");
    [&[0xFF, marker], &length.to_be_bytes()[..], content].concat()
}

/// The segment of a JPEG that holds EXIF.
pub(crate) fn jpeg_exif(tiff: &[u8]) -> Vec<u8> {
    jpeg_segment(0xE1, &[b"Exif\0\0", tiff].concat())
}

/// The segment of a JPEG that holds XMP.
pub(crate) fn jpeg_xmp(xmp: &str) -> Vec<u8> {
    jpeg_segment(0xE1, &[b"http://ns.adobe.com/xap/1.0/\0", xmp.as_bytes()].concat())
}

/// A WebP of 3 x 2 pixels with a `VP8X` chunk of `flags`, and `chunks` after the frame.
pub(crate) fn webp(flags: u8, chunks: &[Vec<u8>]) -> Vec<u8> {
    let canvas = webp_chunk(*b"VP8X", &[flags, 0, 0, 0, 2, 0, 0, 1, 0, 0]);
    webp_file(&[canvas, lossless_frame(), chunks.concat()])
}

pub(crate) fn webp_file(chunks: &[Vec<u8>]) -> Vec<u8> {
    webp_chunk(*b"RIFF", &[b"WEBP", &chunks.concat()[..]].concat())
}

pub(crate) fn webp_chunk(name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("the content is short");
    let padding = &[0][..content.len() % 2];
    [&name, &length.to_le_bytes(), content, padding].concat()
}

/// A chunk of lossless pixels, 3 x 2.
pub(crate) fn lossless_frame() -> Vec<u8> {
    let bits: u32 = (3 - 1) | (2 - 1) << 14;
    webp_chunk(*b"VP8L", &[&[0x2F], &bits.to_le_bytes()[..], &[0; 5]].concat())
}

/// A GIF with a screen of 3 x 2 pixels: `extensions`, then a frame of `width` x `height` at its corner.
pub(crate) fn gif(extensions: &[u8], width: u16, height: u16) -> Vec<u8> {
    let frame =
        [&[b',', 0, 0, 0, 0][..], &width.to_le_bytes(), &height.to_le_bytes(), &[0]].concat();
    [b"GIF89a\x03\0\x02\0\0\0\0", extensions, &frame, b"\x02\x01\0\0;"].concat()
}

/// A BMP with a header of `header` bytes: `fields`, then zeros.
pub(crate) fn bmp(header: u32, fields: &[u8]) -> Vec<u8> {
    let mut bytes = [b"BM\0\0\0\0\0\0\0\0\x36\0\0\0", &header.to_le_bytes()[..], fields].concat();
    bytes.resize(14 + header as usize, 0);
    bytes
}

/// The fields of a BMP of Windows, with 24 bits a pixel.
pub(crate) fn windows_fields(width: i32, height: i32) -> Vec<u8> {
    [&width.to_le_bytes(), &height.to_le_bytes(), &[1, 0, 24, 0][..]].concat()
}

/// A tag of a TIFF directory whose values are 16-bit numbers.
pub(crate) fn short_tag(tag: u16, value: u16) -> (u16, u16, Vec<u8>) {
    (tag, 3, value.to_le_bytes().to_vec())
}

/// A TIFF file of tags, each with its kind and values, in little-endian order.
pub(crate) fn tiff(tags: &[(u16, u16, Vec<u8>)]) -> Vec<u8> {
    let count = u16::try_from(tags.len()).expect("the tags are few");
    let mut file = [b"II*\0\x08\0\0\0", &count.to_le_bytes()[..]].concat();
    let mut outside: Vec<u8> = Vec::new();
    let end = file.len() + 12 * tags.len() + 4;
    for (tag, kind, values) in tags {
        let unit = match kind {
            3 => 2,
            4 => 4,
            _ => 1,
        };
        let number = |value: usize| u32::try_from(value).expect("the file is short").to_le_bytes();
        file.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        file.extend(number(values.len() / unit));
        if values.len() <= 4 {
            file.extend([&values[..], &[0; 4][values.len()..]].concat());
        } else {
            file.extend(number(end + outside.len()));
            outside.extend(values);
        }
    }
    file.extend([0; 4]);
    file.extend(outside);
    file
}

/// The TIFF file inside EXIF that gives `orientation`.
pub(crate) fn exif(orientation: u16) -> Vec<u8> {
    tiff(&[(271, 2, b"A camera\0".to_vec()), short_tag(274, orientation)])
}

/// A TIFF picture of 3 x 2 pixels with more tags.
pub(crate) fn tiff_picture(more: &[(u16, u16, Vec<u8>)]) -> Vec<u8> {
    tiff(&[&[short_tag(256, 3), short_tag(257, 2)], more].concat())
}

/// XMP that gives the orientation as an attribute.
pub(crate) fn xmp(orientation: u16) -> String {
    format!("<x:xmpmeta><rdf:Description tiff:Orientation=\"{orientation}\"/></x:xmpmeta>")
}

/// XMP that gives the orientation as an element.
pub(crate) fn xmp_element(orientation: u16) -> String {
    format!("<x:xmpmeta><tiff:Orientation>{orientation}</tiff:Orientation></x:xmpmeta>")
}
