//! Bytes that are no picture, or a damaged one.

use proptest::prelude::*;

use crate::files::{
    bmp, exif, gif, jpeg, jpeg_exif, jpeg_xmp, packed, png, png_chunk, size, tiff_picture, webp,
    webp_chunk, windows_fields, xmp,
};

/// A picture of each format, with metadata.
fn pictures() -> Vec<Vec<u8>> {
    let text = [b"Raw profile type exif\0\0", &packed(b"\nexif\n 4\n49492a00\n")[..]].concat();
    let animation = png_chunk(*b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]);
    vec![
        png(&[png_chunk(*b"zTXt", &text), animation], &[png_chunk(*b"eXIf", &exif(6))]),
        jpeg(&[jpeg_exif(&exif(6)), jpeg_xmp(&xmp(6))]),
        webp(12, &[webp_chunk(*b"EXIF", &exif(6)), webp_chunk(*b"XMP ", xmp(6).as_bytes())]),
        gif(b"!\xFE\x05hello\0", 5, 5),
        bmp(40, &windows_fields(3, -2)),
        tiff_picture(&[(270, 2, vec![b'x'; 10]), (274, 3, vec![6, 0])]),
    ]
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = size(&bytes);
    }

    #[test]
    fn no_bytes_behind_a_known_start_panic(
        start in prop::sample::select(pictures()),
        kept in 0..40_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = size(&[&start[..kept.min(start.len())], &bytes].concat());
    }

    #[test]
    fn no_change_or_cut_of_a_picture_panics(
        picture in prop::sample::select(pictures()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = picture;
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = size(&bytes);
        let _ = size(&bytes[..cut.index(bytes.len())]);
    }
}
