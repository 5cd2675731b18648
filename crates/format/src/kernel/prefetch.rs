//! A hint to the processor that bytes will be read soon.

/// Bytes that come into the cache together.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Has the first two cache lines of these bytes fetched while other work goes on: what lies in memory in no order that
/// the processor foresees is waited for otherwise.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let second = bytes.get(LINE..).unwrap_or(bytes);
        #[expect(unsafe_code, reason = "a hint: nothing is read that the program sees")]
        // SAFETY: the instruction faults at no address, and these are of a slice.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast());
            _mm_prefetch::<_MM_HINT_T0>(second.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
