//! Files that are refused.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use fastpack_picture::PictureFault;

use crate::files::{
    bmp, exif, gif, jpeg, jpeg_segment, packed, png, png_chunk, size, tiff, tiff_picture, webp,
    webp_chunk, webp_file, windows_fields,
};

fn message(bytes: &[u8]) -> String {
    size(bytes).expect_err("the picture is refused").to_string()
}

#[test]
fn a_file_of_another_format_is_refused_with_its_start() {
    assert_eq!(
        message(b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        r#"no picture: it starts with `<svg xmlns=\"http`, as no PNG, JPEG, WebP, GIF, BMP or TIFF does"#
    );
    assert!(matches!(size(b""), Err(PictureFault::Unknown { .. })));
    assert!(matches!(size(b"RIFF\x04\0\0\0WAVE"), Err(PictureFault::Unknown { .. })));
}

#[test]
fn a_header_that_is_cut_anywhere_is_refused() {
    let cases = [
        // Up to the name of the chunk of pixels, the start of the scan, the code size of the first frame.
        (png(&[], &[]), 8, 41),
        (jpeg(&[jpeg_segment(0xE0, b"JFIF")]), 3, 33),
        (gif(b"!\xFE\x05hello\0", 3, 2), 6, 33),
        (bmp(40, &windows_fields(3, 2)), 2, 54),
        (bmp(12, &[3, 0, 2, 0, 1, 0, 24, 0]), 2, 26),
        (tiff_picture(&[(270, 2, vec![b'x'; 10])]), 4, 60),
    ];
    for (file, from, until) in cases {
        assert!(size(&file[..until]).is_ok(), "{}", file.escape_ascii());
        for length in from..until {
            let fault = size(&file[..length]).expect_err("the header is cut");
            assert!(
                matches!(fault, PictureFault::Cut { length: told, .. } if told == length as u64),
                "{fault}"
            );
        }
    }
}

#[test]
fn a_webp_that_is_cut_anywhere_is_refused() {
    let file = webp(0, &[]);
    for length in 16..file.len() {
        assert_eq!(
            message(&file[..length]),
            format!("a WebP that ends inside its header, after {length} bytes")
        );
    }
}

#[test]
fn pixels_may_be_cut() {
    let file = png(&[], &[png_chunk(*b"eXIf", &exif(6))]);
    assert!(size(&file[..45]).is_ok());
}

#[test]
fn a_side_of_no_pixels_is_refused() {
    assert_eq!(message(&bmp(40, &windows_fields(0, 2))), "a damaged BMP: a size of 0 x 2");
}

#[test]
fn a_picture_of_more_pixels_than_pillow_opens_is_refused() {
    assert!(size(&bmp(40, &windows_fields(89_478_485, 2))).is_ok());
    let message = message(&bmp(40, &windows_fields(89_478_486, 2)));
    assert_eq!(message, "a damaged BMP: a size of 89478486 x 2");
}

#[test]
fn a_wrong_checksum_before_the_pixels_of_a_png_is_refused() {
    let mut file = png(&[], &[]);
    file[19] = 4;
    assert_eq!(message(&file), "a damaged PNG: a wrong checksum of the chunk `IHDR`");
}

#[test]
fn a_text_that_grows_beyond_1_mib_is_refused() {
    let text = [b"XML:com.adobe.xmp\0\0", &packed(&vec![b' '; (1 << 20) + 1])[..]].concat();
    let file = png(&[png_chunk(*b"zTXt", &text)], &[]);
    assert_eq!(message(&file), "a damaged PNG: more than 1 MiB of compressed text");
}

#[test]
fn exif_in_other_than_digits_is_refused() {
    let text = png_chunk(*b"tEXt", b"Raw profile type exif\0\nexif\n 2\nxy\n");
    assert_eq!(message(&png(&[text], &[])), "a damaged PNG: EXIF not of hexadecimal digits");
}

#[test]
fn damaged_headers_are_refused_with_what_was_found() {
    let twelve_bits = jpeg_segment(0xC1, &[12, 0, 2, 0, 3, 1, 1, 0x11, 0]);
    assert_eq!(message(&jpeg(&[twelve_bits])), "a damaged JPEG: 1 layers of 12 bits");
    assert_eq!(message(&bmp(16, &[])), "a damaged BMP: a header of 16 bytes");
    assert_eq!(message(&tiff(&[])), "a damaged TIFF: no width or height");
    assert_eq!(message(b"GIF89a\x03\0\x02\0\0\0\0;"), "a damaged GIF: no frame");
    let chunk = webp_chunk(*b"VP8 ", &[0; 10]);
    let file = webp_file(&[chunk]);
    assert_eq!(message(&file), "a damaged WebP: no frame to show");
}

/// A reader that fails from an offset on.
struct Failing {
    inner: Cursor<Vec<u8>>,
    from: u64,
}

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.inner.position() >= self.from {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.inner.read(buffer)
    }
}

impl Seek for Failing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

#[test]
fn a_failing_reader_is_its_own_fault() {
    let file = png(&[], &[png_chunk(*b"IDAT", &[0; 9000]), png_chunk(*b"eXIf", &exif(6))]);
    for from in [0, 9000] {
        let failing = Failing { inner: Cursor::new(file.clone()), from };
        assert!(matches!(fastpack_picture::size(failing), Err(PictureFault::Read(_))));
    }
}
