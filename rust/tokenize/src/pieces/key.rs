//! [`PieceKey`]: a short piece as two words, which is compared without a loop.

use super::fold;

/// The longest piece that fits into a key, in bytes.
pub(crate) const LONGEST: usize = 15;

/// The bytes of a piece, with their number in the last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PieceKey {
    pub(super) low: u64,
    pub(super) high: u64,
}

/// The bits of the length byte that a cache entry uses for other data.
pub(super) const SPARE: u64 = 0b1110_0000 << 56;

/// For each length, the mask of the piece's bytes among sixteen: a branch on more than eight bytes could not
/// be predicted.
const MASKS: [[u64; 2]; LONGEST + 1] = {
    let mut masks = [[0; 2]; LONGEST + 1];
    let mut length = 0;
    while length <= LONGEST {
        let bits = (1_u128 << (8 * length)) - 1;
        #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
        let halves = [bits as u64, (bits >> 64) as u64];
        masks[length] = halves;
        length += 1;
    }
    masks
};

/// The bit of keys of parts of a longer piece, if a part can have other ids than a whole piece.
const PART: u64 = 0b0001_0000 << 56;

impl PieceKey {
    /// The key of `text[start..start + length]`, which is 1 to [`LONGEST`] bytes long.
    #[inline]
    pub(crate) fn new(text: &[u8], start: usize, length: usize) -> Self {
        let words = |bytes: &[u8; 16]| {
            let (low, high) = bytes.split_at(8);
            let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap_or_default());
            [word(low), word(high)]
        };
        let [low, high] = if let Some(bytes) = text[start..].first_chunk() {
            let ([low, high], mask) = (words(bytes), MASKS[length & LONGEST]);
            [low & mask[0], high & mask[1]]
        } else {
            let mut bytes = [0; 16];
            bytes[..length].copy_from_slice(&text[start..start + length]);
            words(&bytes)
        };
        Self { low, high: high | (length as u64) << 56 }
    }

    /// The key of a whole text; `None` if the text is empty or too long.
    #[inline]
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        (1..=LONGEST).contains(&text.len()).then(|| Self::new(text, 0, text.len()))
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

    /// True if the key is that of a part.
    #[inline]
    pub(crate) fn is_part(self) -> bool {
        self.high & PART != 0
    }

    /// The key of the same bytes as a whole piece.
    #[inline]
    pub(crate) fn whole(self) -> Self {
        Self { high: self.high & !PART, ..self }
    }

    #[inline]
    pub(super) fn hash(self) -> u64 {
        fold(self.low, self.high)
    }
}
