//! Large arrays on huge pages.
//!
//! Merging touches its arrays at random; with 4 KiB pages most touches also miss the address translation
//! cache.

/// Less than this fits in few pages anyway.
const WORTH_IT: usize = 4 << 20;

/// `len` times `value`, on huge pages where the system has some to give.
pub fn filled<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut array = Vec::with_capacity(len);
    let bytes = len * size_of::<T>();
    if bytes >= WORTH_IT {
        advise(array.as_mut_ptr(), bytes);
    }
    array.resize(len, value);
    array
}

/// `len` zeros; what is never written takes no memory.
pub fn zeros(len: usize) -> Vec<u32> {
    let mut array = vec![0; len];
    if len * size_of::<u32>() >= WORTH_IT {
        advise(array.as_mut_ptr(), len * size_of::<u32>());
    }
    array
}

#[cfg(target_os = "linux")]
fn advise<T>(start: *mut T, bytes: usize) {
    const PAGE: usize = 4096;
    let start = start.cast::<u8>();
    let skipped = start.align_offset(PAGE);
    if let Some(bytes) = bytes.checked_sub(skipped) {
        let first = start.wrapping_add(skipped);
        // SAFETY: the range is part of an allocation of ours, and the advice changes no contents; a
        // refusal costs only speed.
        unsafe { libc::madvise(first.cast(), bytes / PAGE * PAGE, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_start: *mut T, _bytes: usize) {}
