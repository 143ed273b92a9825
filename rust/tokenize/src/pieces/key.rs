//! A short piece as two words, so that comparing it costs two comparisons.

use super::fold;

/// The longest piece that fits into a key, in bytes.
pub(crate) const LONGEST: usize = 15;

/// The bytes of a piece, with their number in the last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(super) low: u64,
    pub(super) high: u64,
}

/// Bits of the length byte that a cache entry uses for itself.
pub(super) const SPARE: u64 = 0b1110_0000 << 56;

/// Set in keys of parts of a longer piece, where the whole piece would be answered otherwise.
const PART: u64 = 0b0001_0000 << 56;

impl Key {
    /// The key of `text[start..start + length]`, which is 1 to [`LONGEST`] bytes long.
    #[inline]
    pub(crate) fn new(text: &[u8], start: usize, length: usize) -> Self {
        let mut low;
        let mut high;
        if let Some(bytes) = text.get(start..start + 16) {
            let (first, last) = bytes.split_at(8);
            low = u64::from_le_bytes(first.try_into().unwrap_or_default());
            high = u64::from_le_bytes(last.try_into().unwrap_or_default());
            if length < 8 {
                low &= (1 << (8 * length)) - 1;
                high = 0;
            } else {
                high &= (1 << (8 * (length - 8))) - 1;
            }
        } else {
            let mut bytes = [0; 16];
            bytes[..length].copy_from_slice(&text[start..start + length]);
            let (first, last) = bytes.split_at(8);
            low = u64::from_le_bytes(first.try_into().unwrap_or_default());
            high = u64::from_le_bytes(last.try_into().unwrap_or_default());
        }
        high |= (length as u64) << 56;
        Self { low, high }
    }

    /// The key of an entry.
    pub(super) fn stored(low: u64, high: u64) -> Self {
        Self { low, high: high & !SPARE }
    }

    /// The key of the same bytes as a part of a longer piece.
    #[inline]
    pub(crate) fn part(self) -> Self {
        Self { high: self.high | PART, ..self }
    }

    /// Whether a stored key, whose spare bits mean something else, is this one.
    #[inline]
    pub(super) fn is(self, low: u64, high: u64) -> bool {
        self.low == low && self.high == high & !SPARE
    }

    #[inline]
    pub(super) fn hash(self) -> u64 {
        fold(self.low, self.high)
    }
}
