//! The bytes that are read of large pictures.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use fastpack_picture::{PictureFault, Size};

use crate::files::{
    exif, jpeg, jpeg_exif, jpeg_segment, png, png_chunk, short_tag, tiff_picture, webp, webp_chunk,
};

/// A reader that counts the bytes that it gives.
struct Counted {
    inner: Cursor<Vec<u8>>,
    bytes: usize,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.bytes += bytes;
        Ok(bytes)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// The size of the picture in `file`, and the bytes read of it.
fn read(file: Vec<u8>) -> (Result<Size, PictureFault>, usize) {
    let mut counted = Counted { inner: Cursor::new(file), bytes: 0 };
    (fastpack_picture::size(&mut counted), counted.bytes)
}

/// The bytes read of `file`, whose picture EXIF turns.
fn read_turned(file: Vec<u8>) -> usize {
    let (size, bytes) = read(file);
    assert_eq!(size.expect("the picture has a size"), Size { width: 2, height: 3 });
    bytes
}

const PIXELS: usize = 20 << 20;

#[test]
fn the_pixels_of_a_jpeg_are_not_read() {
    let profile = vec![jpeg_segment(0xE2, &vec![7; 60_000]); 8];
    let mut file = jpeg(&[vec![jpeg_exif(&exif(6))], profile].concat());
    file.extend(vec![0; PIXELS]);
    let bytes = read_turned(file);
    assert!(bytes < 12_000, "{bytes} bytes");
}

#[test]
fn the_pixels_of_a_png_are_not_read() {
    let pixels = vec![png_chunk(*b"IDAT", &[7; 8192]); PIXELS / 8192];
    let file = png(&[], &[pixels, vec![png_chunk(*b"eXIf", &exif(6))]].concat());
    let chunks = PIXELS / 8192;
    let bytes = read_turned(file);
    assert!(bytes < 12_000 + 64 * chunks, "{bytes} bytes");
}

#[test]
fn the_pixels_of_a_webp_are_not_read() {
    let pixels = webp_chunk(*b"ANMF", &vec![7; PIXELS]);
    let file = webp(8, &[pixels, webp_chunk(*b"EXIF", &exif(6))]);
    let bytes = read_turned(file);
    assert!(bytes < 12_000, "{bytes} bytes");
}

#[test]
fn the_pixels_of_a_tiff_are_not_read() {
    // The directory moves behind the pixels.
    let file = tiff_picture(&[short_tag(274, 6)]);
    let place = u32::try_from(8 + PIXELS).expect("the file is short").to_le_bytes();
    let file = [b"II*\0", &place[..], &vec![7; PIXELS], &file[8..]].concat();
    let bytes = read_turned(file);
    assert!(bytes < 12_000, "{bytes} bytes");
}

#[test]
fn a_field_of_more_than_16_mib_is_refused_unread() {
    let (size, bytes) = read(png(&[png_chunk(*b"eXIf", &vec![0; (16 << 20) + 1])], &[]));
    let fault = size.expect_err("the field is too long").to_string();
    assert_eq!(fault, "a damaged PNG: a field of 16777217 bytes");
    assert!(bytes < 12_000, "{bytes} bytes");
}
