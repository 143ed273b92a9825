//! The sizes of pictures that are not turned.

use crate::files::{
    bmp, gif, jpeg, jpeg_segment, lossless_frame, png, png_chunk, short_tag, sides, tiff,
    tiff_picture, webp, webp_chunk, webp_file, windows_fields,
};

#[test]
fn each_format_tells_its_size() {
    let lossy = [0x10, 0, 0, 0x9D, 0x01, 0x2A, 3, 0, 2, 0];
    for file in [
        png(&[], &[]),
        jpeg(&[]),
        webp(0, &[]),
        webp_file(&[lossless_frame()]),
        webp_file(&[webp_chunk(*b"VP8 ", &lossy)]),
        gif(b"", 3, 2),
        bmp(40, &windows_fields(3, 2)),
        tiff_picture(&[]),
    ] {
        assert_eq!(sides(&file), (3, 2), "{}", file.escape_ascii());
    }
}

#[test]
fn markers_of_a_jpeg_may_be_padded_and_stand_after_other_bytes() {
    let padded = [b"\xFF\xFF", &jpeg_segment(0xFE, b"a comment")[..]].concat();
    let junk = b"\0junk".to_vec();
    let escaped = b"\xFF\0".to_vec();
    let restart = b"\xFF\xD0".to_vec();
    let comment = jpeg_segment(0xFE, b"another");
    assert_eq!(sides(&jpeg(&[padded, junk, escaped, restart, comment])), (3, 2));
}

#[test]
fn the_last_frame_header_of_a_jpeg_counts() {
    let progressive = jpeg_segment(0xC2, &[8, 0, 9, 0, 9, 1, 1, 0x11, 0]);
    assert_eq!(sides(&jpeg(&[progressive])), (3, 2));
}

#[test]
fn unknown_chunks_are_passed_over() {
    let private = png_chunk(*b"prVt", &[7; 5000]);
    assert_eq!(sides(&png(&[private.clone(), private.clone()], &[private])), (3, 2));
    assert_eq!(sides(&webp(0, &[webp_chunk(*b"NEWS", &[7; 5001])])), (3, 2));
}

#[test]
fn an_animated_webp_has_the_size_of_its_canvas() {
    let canvas = webp_chunk(*b"VP8X", &[2, 0, 0, 0, 9, 0, 0, 4, 0, 0]);
    let frame = webp_chunk(*b"ANMF", &[&[0; 16], &lossless_frame()[..]].concat());
    assert_eq!(sides(&webp_file(&[canvas, frame])), (10, 5));
}

#[test]
fn a_first_frame_enlarges_the_screen_of_a_gif() {
    assert_eq!(sides(&gif(b"", 1, 1)), (3, 2));
    assert_eq!(sides(&gif(b"", 1, 7)), (3, 7));
    assert_eq!(sides(&gif(b"", 5, 7)), (5, 7));
}

#[test]
fn extensions_of_a_gif_are_passed_over() {
    let comment = [b"!\xFE\x05hello\x05", &b",,,,,\0"[..]].concat();
    assert_eq!(sides(&gif(&comment, 5, 5)), (5, 5));
}

#[test]
fn the_palette_of_a_gif_is_passed_over() {
    let mut file = gif(b"", 5, 2);
    file[10] = 0x81;
    file.splice(13..13, [b','; 12]);
    assert_eq!(sides(&file), (5, 2));
}

#[test]
fn a_bmp_may_run_from_top_to_bottom() {
    assert_eq!(sides(&bmp(40, &windows_fields(3, -2))), (3, 2));
}

#[test]
fn each_header_of_a_bmp_is_known() {
    assert_eq!(sides(&bmp(12, &[3, 0, 2, 0, 1, 0, 24, 0])), (3, 2));
    for header in [40, 52, 56, 64, 108, 124] {
        assert_eq!(sides(&bmp(header, &windows_fields(3, 2))), (3, 2));
    }
}

#[test]
fn the_sides_of_a_tiff_are_integers_of_any_width() {
    let long = |tag, value: u32| (tag, 4, value.to_le_bytes().to_vec());
    assert_eq!(sides(&tiff(&[long(256, 70_000), short_tag(257, 2)])), (70_000, 2));
}

#[test]
fn a_tiff_may_be_big_endian() {
    let file = b"MM\0*\0\0\0\x08\0\x02\x01\x00\0\x03\0\0\0\x01\0\x03\0\0\x01\x01\0\x03\0\0\0\x01\0\x02\0\0\0\0\0\0";
    assert_eq!(sides(file), (3, 2));
}

#[test]
fn a_tiff_may_have_offsets_of_64_bits() {
    let tag = |tag: u16, value: u16| {
        [&tag.to_le_bytes()[..], &[3, 0], &1_u64.to_le_bytes(), &value.to_le_bytes(), &[0; 6]]
            .concat()
    };
    let start = b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0";
    assert_eq!(sides(&[start, &tag(256, 3)[..], &tag(257, 2), &[0; 8]].concat()), (3, 2));
}

#[test]
fn a_private_tag_past_the_end_of_a_tiff_changes_nothing() {
    let mut file = tiff_picture(&[(34_675, 7, vec![0; 100])]);
    file.truncate(60);
    assert_eq!(sides(&file), (3, 2));
}
