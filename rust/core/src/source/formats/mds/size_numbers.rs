//! [`word`]: the numbers of four bytes that tell sizes and places.

/// Bytes of a number that tells the size of a value.
pub(super) const WORD: usize = 4;

/// The number at a place of some bytes.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}
