//! [`mix`]: scrambles a number, so that close numbers become unlike.

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
///
/// It is implemented here because the numbers decide the output: a crate may change its own in any version.
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The distance between the numbers that are mixed one after the other: an odd number near 2⁶⁴ divided by the golden
/// ratio.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
