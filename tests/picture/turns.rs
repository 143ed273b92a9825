//! Pictures that EXIF or XMP turns.

use std::fmt::Write;

use crate::files::{
    exif, jpeg, jpeg_exif, jpeg_segment, jpeg_xmp, packed, png, png_chunk, short_tag, sides, tiff,
    tiff_picture, webp, webp_chunk, xmp, xmp_element,
};

const UPRIGHT: (u32, u32) = (3, 2);
const ON_ITS_SIDE: (u32, u32) = (2, 3);

/// The orientations, with some that do not exist.
const ORIENTATIONS: [u16; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 90, 300];

fn expected(orientation: u16) -> (u32, u32) {
    if (5..=8).contains(&orientation) { ON_ITS_SIDE } else { UPRIGHT }
}

/// The text of a PNG that gives EXIF in digits, as `ImageMagick` writes it.
fn profile(tiff: &[u8]) -> Vec<u8> {
    let exif = [b"Exif\0\0", tiff].concat();
    let mut text = format!("\nexif\n{:8}\n", exif.len());
    for line in exif.chunks(36) {
        for byte in line {
            write!(text, "{byte:02x}").expect("memory takes all");
        }
        text.push('\n');
    }
    text.into_bytes()
}

/// XMP as a text of a PNG.
fn png_xmp(xmp: &str) -> Vec<u8> {
    png_chunk(*b"iTXt", &[b"XML:com.adobe.xmp\0\0\0\0\0", xmp.as_bytes()].concat())
}

#[test]
fn exif_turns_pictures_of_each_format() {
    for orientation in ORIENTATIONS {
        let exif = exif(orientation);
        let marked = [b"Exif\0\0", &exif[..]].concat();
        let chunk = png_chunk(*b"eXIf", &exif);
        let named = png_chunk(*b"tEXt", &[b"exif\0", &marked[..]].concat());
        let text = [b"Raw profile type exif\0", &profile(&exif)[..]].concat();
        let packed = [b"Raw profile type exif\0\0", &packed(&profile(&exif))[..]].concat();
        for file in [
            jpeg(&[jpeg_exif(&exif)]),
            jpeg(&[jpeg_exif(&marked)]),
            jpeg(&[jpeg_exif(&exif[..20]), jpeg_exif(&exif[20..])]),
            png(std::slice::from_ref(&chunk), &[]),
            png(&[], &[chunk]),
            png(&[named], &[]),
            png(&[png_chunk(*b"tEXt", &text)], &[]),
            png(&[], &[png_chunk(*b"zTXt", &packed)]),
            webp(8, &[webp_chunk(*b"EXIF", &exif)]),
            webp(8, &[webp_chunk(*b"EXIF", &marked)]),
            tiff_picture(&[short_tag(274, orientation)]),
        ] {
            assert_eq!(sides(&file), expected(orientation), "{}", file.escape_ascii());
        }
    }
}

#[test]
fn xmp_turns_pictures_of_each_format() {
    for orientation in 0..=9 {
        for xmp in [xmp(orientation), xmp_element(orientation)] {
            let text = png_xmp(&xmp);
            let packed =
                [b"XML:com.adobe.xmp\0\x01\0en\0name\0", &packed(xmp.as_bytes())[..]].concat();
            for file in [
                jpeg(&[jpeg_xmp(&xmp)]),
                png(std::slice::from_ref(&text), &[]),
                png(&[], &[text]),
                png(&[png_chunk(*b"iTXt", &packed)], &[]),
                webp(4, &[webp_chunk(*b"XMP ", xmp.as_bytes())]),
                tiff_picture(&[(700, 1, xmp.as_bytes().to_vec())]),
            ] {
                assert_eq!(sides(&file), expected(orientation), "{}", file.escape_ascii());
            }
        }
    }
}

#[test]
fn xmp_counts_only_without_an_orientation_in_exif() {
    let both = |tags: &[(u16, u16, Vec<u8>)]| jpeg(&[jpeg_xmp(&xmp(6)), jpeg_exif(&tiff(tags))]);
    assert_eq!(sides(&both(&[short_tag(274, 1)])), UPRIGHT);
    assert_eq!(sides(&both(&[short_tag(274, 0)])), UPRIGHT);
    assert_eq!(sides(&both(&[short_tag(271, 1)])), ON_ITS_SIDE);
    assert_eq!(sides(&both(&[])), ON_ITS_SIDE);
}

#[test]
fn only_the_usual_spellings_of_xmp_are_found() {
    let turned = |xmp: &str| sides(&jpeg(&[jpeg_xmp(xmp)]));
    assert_eq!(turned("tiff:Orientation='6'"), UPRIGHT);
    assert_eq!(turned("tiff:Orientation = \"6\""), UPRIGHT);
    assert_eq!(turned("tiff:Orientation=\"\" tiff:Orientation=\"65\""), ON_ITS_SIDE);
}

#[test]
fn the_chunk_of_exif_in_a_png_comes_before_the_digits() {
    let text = [b"Raw profile type exif\0", &profile(&exif(6))[..]].concat();
    let digits = png_chunk(*b"tEXt", &text);
    assert_eq!(sides(&png(&[png_chunk(*b"eXIf", &exif(1)), digits], &[])), UPRIGHT);
}

#[test]
fn metadata_of_a_later_frame_turns_nothing() {
    let frames = png_chunk(*b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]);
    let first = png_chunk(*b"fcTL", &[0; 26]);
    let second = png_chunk(*b"fcTL", &[0; 26]);
    let exif = png_chunk(*b"eXIf", &exif(6));
    let animated = png(&[frames, first.clone()], &[second.clone(), exif.clone()]);
    assert_eq!(sides(&animated), UPRIGHT);
    assert_eq!(sides(&png(&[first], &[second, exif])), ON_ITS_SIDE);
}

#[test]
fn metadata_of_a_webp_counts_only_if_it_is_announced() {
    let exif = webp_chunk(*b"EXIF", &exif(6));
    let xmp = webp_chunk(*b"XMP ", xmp(6).as_bytes());
    assert_eq!(sides(&webp(0, &[exif, xmp])), UPRIGHT);
}

#[test]
fn a_tag_past_the_end_of_exif_hides_those_behind_it() {
    let mut exif = tiff(&[(270, 2, vec![b'x'; 100]), short_tag(274, 6)]);
    assert_eq!(sides(&jpeg(&[jpeg_exif(&exif)])), ON_ITS_SIDE);
    // The value of the first tag now starts at the last byte; the whole is still longer than the value.
    let place = u32::try_from(exif.len() - 1).expect("EXIF is short").to_le_bytes();
    exif[18..22].copy_from_slice(&place);
    assert_eq!(sides(&jpeg(&[jpeg_exif(&exif)])), UPRIGHT);
}

#[test]
fn the_first_of_two_orientations_counts() {
    let twice =
        |first, second| jpeg(&[jpeg_exif(&tiff(&[short_tag(274, first), short_tag(274, second)]))]);
    assert_eq!(sides(&twice(6, 1)), ON_ITS_SIDE);
    assert_eq!(sides(&twice(1, 6)), UPRIGHT);
}

#[test]
fn a_tag_longer_than_exif_is_left_out() {
    let mut exif = tiff(&[(270, 2, vec![b'x'; 100]), short_tag(274, 6)]);
    exif[14..18].copy_from_slice(&1000_u32.to_le_bytes());
    assert_eq!(sides(&jpeg(&[jpeg_exif(&exif)])), ON_ITS_SIDE);
}

#[test]
fn damaged_exif_of_a_jpeg_is_forgiven_without_a_density() {
    let damaged = jpeg_exif(b"no TIFF header");
    let density =
        |unit| jpeg_segment(0xE0, &[b"JFIF\0\x01\x01", &[unit, 0, 72, 0, 72, 0, 0][..]].concat());
    assert_eq!(sides(&jpeg(&[density(0), damaged.clone(), jpeg_xmp(&xmp(6))])), UPRIGHT);
    let error = crate::files::size(&jpeg(&[density(1), damaged])).expect_err("EXIF is damaged");
    assert_eq!(error.to_string(), "a damaged EXIF: no TIFF header");
}
