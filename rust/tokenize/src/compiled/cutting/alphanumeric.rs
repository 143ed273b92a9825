//! Runs of ASCII letters and digits, found eight bytes at a time.

/// The highest bit of every byte that is not an ASCII letter or digit. Letters and digits are parts of words
/// to every normalizer.
#[inline]
pub(crate) fn not_alphanumeric(bytes: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // No sum overflows its byte: 0x7F + 0x7F is the largest.
    let above = |bytes: u64, limit: u8| bytes + u64::from(0x7F - limit) * EACH;
    let low = bytes & !HIGH;
    let small = low | (0x20 * EACH);
    let letters = above(small, b'a' - 1) & !above(small, b'z');
    let digits = above(low, b'0' - 1) & !above(low, b'9');
    (bytes | !(letters | digits)) & HIGH
}

/// The end of the ASCII letters and digits from `at` on, as far as that is found without a look at single bytes: at
/// most eight bytes behind the run's start for each step, and never behind its end.
#[inline]
pub(crate) fn run_end(text: &[u8], mut at: usize) -> usize {
    while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let others = not_alphanumeric(u64::from_le_bytes(*bytes));
        at += others.trailing_zeros() as usize / 8;
        if others != 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_run_ends_before_the_first_other_byte(text in "[a-zA-Z0-9é @`{/:]{0,40}", at in 0..20_usize) {
            let bytes = text.as_bytes();
            let at = at.min(bytes.len());
            let end = run_end(bytes, at);
            let whole = bytes[at..].iter().take_while(|it| it.is_ascii_alphanumeric()).count();
            prop_assert!(end <= at + whole);
            prop_assert!(end == at + whole || bytes.len() - end < 8, "{} of {}", end - at, whole);
        }
    }
}
