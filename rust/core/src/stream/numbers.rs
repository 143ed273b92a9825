//! [`number`]: pseudo-random numbers, each a function of the numbers that it is for.

/// A pseudo-random number from the given ones.
pub(super) fn number(of: &[u64]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for number in of {
        hasher.update(&number.to_le_bytes());
    }
    u64::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("a hash of 32 bytes"))
}
