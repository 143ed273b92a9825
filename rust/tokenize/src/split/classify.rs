//! Classifies sixty-four bytes at once into one mask a class: bit `i` is about byte `i`.

/// The number of bytes in a window.
pub(crate) const WINDOW: usize = 64;

/// The classes of the bytes of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    /// ASCII letters.
    pub(crate) letter: u64,
    /// ASCII upper case.
    pub(crate) upper: u64,
    /// ASCII digits.
    pub(crate) digit: u64,
    /// ASCII whitespace, without CR and LF.
    pub(crate) blank: u64,
    /// U+0020.
    pub(crate) space: u64,
    /// CR and LF.
    pub(crate) newline: u64,
    /// Bytes of characters that are not ASCII.
    pub(crate) wide: u64,
    /// `'`
    pub(crate) apostrophe: u64,
    /// `/`
    pub(crate) slash: u64,
}

/// Classifies a window, eight bytes at a time, on any machine.
pub(crate) fn portable(window: &[u8; WINDOW]) -> Masks {
    let mut masks = Masks::default();
    for (index, chunk) in window.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        let shift = 8 * index;
        let mask = |flags: u64| gather(flags) << shift;
        let wide = word & HIGH;
        let ascii = word & !HIGH;
        let only = |flags: u64| flags & !wide;
        masks.wide |= mask(wide);
        masks.letter |= mask(only(between(ascii | (0x20 * ONES), b'a', b'z')));
        masks.upper |= mask(only(between(ascii, b'A', b'Z')));
        masks.digit |= mask(only(between(ascii, b'0', b'9')));
        let space = only(between(ascii, b' ', b' '));
        let newline = only(between(ascii, b'\n', b'\n') | between(ascii, b'\r', b'\r'));
        masks.space |= mask(space);
        masks.newline |= mask(newline);
        masks.blank |= mask(space | only(between(ascii, b'\t', b'\r')) & !newline);
        masks.apostrophe |= mask(only(between(ascii, b'\'', b'\'')));
        masks.slash |= mask(only(between(ascii, b'/', b'/')));
    }
    masks
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * ONES;

/// The high bit of each byte from `first` to `last`; all bytes must be ASCII.
fn between(word: u64, first: u8, last: u8) -> u64 {
    let at_least = word + u64::from(0x80 - first) * ONES;
    let above = word + u64::from(0x7F - last) * ONES;
    at_least & !above & HIGH
}

/// The high bits of the eight bytes, gathered in the low eight bits.
fn gather(flags: u64) -> u64 {
    (flags >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Classifies a window with AVX2.
///
/// Never inlined: otherwise LLVM combines the masks byte by byte instead of in vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
pub(crate) fn avx2(window: &[u8; WINDOW]) -> Masks {
    let (low, high) = window.split_at(WINDOW / 2);
    let (low, high) = (half(low), half(high));
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Masks {
        letter: join(low[0], high[0]),
        upper: join(low[1], high[1]),
        digit: join(low[2], high[2]),
        blank: join(low[3], high[3]),
        space: join(low[4], high[4]),
        newline: join(low[5], high[5]),
        wide: join(low[6], high[6]),
        apostrophe: join(low[7], high[7]),
        slash: join(low[8], high[8]),
    }
}

/// The masks of 32 bytes, in the order of the fields of [`Masks`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn half(bytes: &[u8]) -> [u32; 9] {
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    };
    let bytes: &[u8; 32] = bytes.try_into().unwrap_or(&[0; 32]);
    #[expect(unsafe_code, reason = "there is no safe load")]
    #[expect(clippy::cast_ptr_alignment, reason = "the load needs no alignment")]
    // SAFETY: the reference is to 32 bytes, and the load needs no alignment.
    let text = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast::<__m256i>()) };
    let all = |byte: u8| _mm256_set1_epi8(byte.cast_signed());
    // The comparisons are signed: bytes of other characters are negative, and so below every bound.
    let between = |text: __m256i, first: u8, last: u8| {
        _mm256_and_si256(
            _mm256_cmpgt_epi8(text, all(first - 1)),
            _mm256_cmpgt_epi8(all(last + 1), text),
        )
    };
    let mask = |flags: __m256i| _mm256_movemask_epi8(flags).cast_unsigned();
    let space = _mm256_cmpeq_epi8(text, all(b' '));
    let newline =
        _mm256_or_si256(_mm256_cmpeq_epi8(text, all(b'\n')), _mm256_cmpeq_epi8(text, all(b'\r')));
    let blank = _mm256_or_si256(space, _mm256_andnot_si256(newline, between(text, b'\t', b'\r')));
    [
        mask(between(_mm256_or_si256(text, all(0x20)), b'a', b'z')),
        mask(between(text, b'A', b'Z')),
        mask(between(text, b'0', b'9')),
        mask(blank),
        mask(space),
        mask(newline),
        mask(text),
        mask(_mm256_cmpeq_epi8(text, all(b'\''))),
        mask(_mm256_cmpeq_epi8(text, all(b'/'))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The masks, computed from their definition one byte at a time.
    fn by_definition(window: &[u8; WINDOW]) -> Masks {
        let mask = |is: fn(u8) -> bool| {
            window.iter().enumerate().fold(0, |mask, (at, byte)| mask | u64::from(is(*byte)) << at)
        };
        Masks {
            letter: mask(|byte| byte.is_ascii_alphabetic()),
            upper: mask(|byte| byte.is_ascii_uppercase()),
            digit: mask(|byte| byte.is_ascii_digit()),
            blank: mask(|byte| matches!(byte, b' ' | b'\t' | 0x0B | 0x0C)),
            space: mask(|byte| byte == b' '),
            newline: mask(|byte| matches!(byte, b'\r' | b'\n')),
            wide: mask(|byte| !byte.is_ascii()),
            apostrophe: mask(|byte| byte == b'\''),
            slash: mask(|byte| byte == b'/'),
        }
    }

    #[test]
    fn every_byte_at_every_place_is_classified() {
        let mut window = [0; WINDOW];
        for step in 0..=255_u8 {
            for (byte, place) in window.iter_mut().zip(0_u8..) {
                *byte = place.wrapping_mul(step | 1).wrapping_add(step);
            }
            let expected = by_definition(&window);
            assert_eq!(portable(&window), expected, "{window:?}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                #[expect(unsafe_code, reason = "the function needs a feature of the machine")]
                // SAFETY: the processor has AVX2.
                let found = unsafe { avx2(&window) };
                assert_eq!(found, expected, "{window:?}");
            }
        }
    }
}
