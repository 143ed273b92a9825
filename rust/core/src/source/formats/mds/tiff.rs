//! [`file_of`]: the pixels of a picture, as `pil` columns hold them, as a TIFF file.
//!
//! A value is the width, the height and the length of the name of Pillow's mode, four bytes each; the name; and the pixels, row by
//! row, as `Image.tobytes` gives them. TIFF holds the same bytes behind a header, so that no pixel is touched.

use super::size_numbers::{WORD, word};

/// The place of the entries of the header.
const DIRECTORY: u32 = 8;

/// Bytes of an entry of the header.
const ENTRY: u32 = 12;

/// The type of a number of two bytes in the header.
const SHORT: u16 = 3;

/// The type of a number of four bytes in the header.
const LONG: u16 = 4;

/// Tells that pixels are not compressed.
const NOT_COMPRESSED: u32 = 1;

/// Tells that zero is black.
const GREY: u32 = 1;

/// Tells that samples are red, green and blue.
const RGB: u32 = 2;

/// Tells that samples are cyan, magenta, yellow and black.
const CMYK: u32 = 5;

/// Tells that a sample beside the colours is alpha, which is not multiplied into them.
const ALPHA: u32 = 2;

/// A mode of Pillow as TIFF has it.
struct PillowMode {
    name: &'static str,
    samples: usize,
    /// Bits of a sample.
    bits: u16,
    colours: u32,
    has_alpha: bool,
}

const MODES: [PillowMode; 6] = [
    PillowMode { name: "L", samples: 1, bits: 8, colours: GREY, has_alpha: false },
    PillowMode { name: "LA", samples: 2, bits: 8, colours: GREY, has_alpha: true },
    PillowMode { name: "RGB", samples: 3, bits: 8, colours: RGB, has_alpha: false },
    PillowMode { name: "RGBA", samples: 4, bits: 8, colours: RGB, has_alpha: true },
    PillowMode { name: "CMYK", samples: 4, bits: 8, colours: CMYK, has_alpha: false },
    PillowMode { name: "I;16", samples: 1, bits: 16, colours: GREY, has_alpha: false },
];

/// The file of a picture; fails with the fault of a value that is none.
pub(super) fn file_of(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    const SHORT_VALUE: &str = "a picture that is cut off";
    let (head, rest) = value.split_at_checked(3 * WORD).ok_or(SHORT_VALUE)?;
    let [width, height, length] = [0, 1, 2].map(|at| word(head, at * WORD));
    let (name, pixels) = rest.split_at_checked(length as usize).ok_or(SHORT_VALUE)?;
    let mode = MODES.iter().find(|mode| mode.name.as_bytes() == name);
    let mode = mode.ok_or("a picture whose mode is none of L, LA, RGB, RGBA, CMYK and I;16")?;
    let row = u64::from(width) * mode.samples as u64 * u64::from(mode.bits / 8);
    if row.checked_mul(u64::from(height)) != Some(pixels.len() as u64) {
        return Err(SHORT_VALUE);
    }
    Ok(file(mode, width, height, pixels))
}

/// The file of pixels whose number is right.
fn file(mode: &PillowMode, width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let bits = vec![mode.bits; mode.samples].into_iter().flat_map(u16::to_le_bytes);
    let bits: Vec<u8> = bits.collect();
    let entries = 9 + u32::from(mode.has_alpha);
    let behind = DIRECTORY + 2 + entries * ENTRY + 4;
    // A value of up to four bytes stands in its entry, a longer one behind them all.
    let (bits_at, bits_behind) = match bits[..] {
        [low, high] => (u32::from_le_bytes([low, high, 0, 0]), &[][..]),
        [a, b, c, d] => (u32::from_le_bytes([a, b, c, d]), &[][..]),
        _ => (behind, &bits[..]),
    };
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let samples = count(mode.samples);
    let mut out = Vec::with_capacity(pixels.len() + 256);
    out.extend_from_slice(b"II*\0");
    out.extend_from_slice(&DIRECTORY.to_le_bytes());
    out.extend_from_slice(&entries.to_le_bytes()[..2]);
    let mut entry = |tag: u16, kind: u16, count: u32, value: u32| {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&value.to_le_bytes());
    };
    entry(256, LONG, 1, width);
    entry(257, LONG, 1, height);
    entry(258, SHORT, samples, bits_at);
    entry(259, SHORT, 1, NOT_COMPRESSED);
    entry(262, SHORT, 1, mode.colours);
    entry(273, LONG, 1, behind + count(bits_behind.len()));
    entry(277, SHORT, 1, samples);
    entry(278, LONG, 1, height);
    entry(279, LONG, 1, count(pixels.len()));
    if mode.has_alpha {
        entry(338, SHORT, 1, ALPHA);
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(bits_behind);
    out.extend_from_slice(pixels);
    out
}
