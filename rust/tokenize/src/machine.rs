//! What the machine can do beyond its architecture's least.

/// How many steps before its use something is brought near, where each step takes little time.
pub(crate) const AHEAD: usize = 16;

/// Has the memory at `place` brought into the first-level cache; it need not be anybody's.
#[inline]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "without it, a look-up waits for memory")]
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        let () = unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Whether the machine has AVX2 and the instructions for bits that came before it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}
