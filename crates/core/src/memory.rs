//! What happens when the system refuses memory: the call ends with an error, and the process goes on.
//!
//! Large arrays are allocated with [`grow`], and a refusal ends the call there. A refusal of one of the many small
//! ones would end the process, so [`ReserveAllocator`] holds some address space in reserve: it is released at the first
//! refusal, and a flag makes every loop end the next time it checks its [`Stop`](crate::Stop). The next call refills
//! the reserve before it begins.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::{Error, Result};

const RESERVE: usize = 32 << 20;

static SHORT: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// Where the reserve is; 0 if there is none.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// How a refusal leaves loops that cannot return an error: it unwinds, without a message, up to [`or_error`].
struct Refused(usize);

/// Ends the call because so many bytes were refused.
pub(crate) fn give_up(bytes: usize) -> ! {
    resume_unwind(Box::new(Refused(bytes)))
}

/// Makes room for `more` elements, or ends the call.
pub(crate) fn grow<T>(vector: &mut Vec<T>, more: usize) {
    if vector.try_reserve(more).is_err() {
        give_up(more.saturating_mul(size_of::<T>()));
    }
}

/// Runs `work`; a refusal of memory becomes an error, any other panic goes on.
pub fn or_error<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| match panic.downcast::<Refused>() {
        Ok(refused) => Err(Error::OutOfMemory { bytes: refused.0 }),
        Err(other) => resume_unwind(other),
    })
}

/// An error if so many bytes cannot be allocated now.
pub fn probe(bytes: usize) -> Result<()> {
    let mut asked = Vec::<u8>::new();
    let refused = asked.try_reserve_exact(bytes).is_err();
    // The compiler would remove an allocation that is never used, and every answer would be yes.
    std::hint::black_box(&asked);
    if refused {
        Err(Error::OutOfMemory { bytes })
    } else {
        Ok(())
    }
}

/// An error while memory is short; one relaxed load otherwise.
pub(crate) fn check() -> Result<()> {
    if SHORT.load(Ordering::Relaxed) {
        let bytes = REFUSED.load(Ordering::Relaxed);
        return Err(Error::OutOfMemory { bytes });
    }
    Ok(())
}

/// Refills the reserve before a call begins, if it was released; an error if that fails.
pub fn refill_reserve() -> Result<()> {
    if SHORT.load(Ordering::Relaxed) {
        reserve();
        if RESERVED.load(Ordering::Relaxed) == 0 {
            return check();
        }
        SHORT.store(false, Ordering::Relaxed);
    }
    Ok(())
}

/// Takes the reserve: addresses without pages behind them, so it costs no memory.
pub fn reserve() {
    let start = map(RESERVE);
    if start == 0 {
        return;
    }
    let taken = RESERVED.compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed);
    if taken.is_err() {
        unmap(start);
    }
}

/// The system's allocator, with the reserve behind it.
pub struct ReserveAllocator;

impl ReserveAllocator {
    #[cold]
    fn retry(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
        REFUSED.store(bytes, Ordering::Relaxed);
        SHORT.store(true, Ordering::Relaxed);
        let start = RESERVED.swap(0, Ordering::Relaxed);
        if start != 0 {
            unmap(start);
        }
        allocate()
    }

    /// Whether the reserve would help: with a larger request the caller sees the refusal and can end by itself.
    fn is_small(bytes: usize) -> bool {
        bytes < RESERVE / 4
    }
}

// SAFETY: every call is the system allocator's, made with the arguments given, at most twice.
unsafe impl GlobalAlloc for ReserveAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let got = unsafe { System.alloc(layout) };
        if got.is_null() && Self::is_small(layout.size()) {
            // SAFETY: the caller's promise.
            return Self::retry(layout.size(), || unsafe { System.alloc(layout) });
        }
        got
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let got = unsafe { System.alloc_zeroed(layout) };
        if got.is_null() && Self::is_small(layout.size()) {
            // SAFETY: the caller's promise.
            return Self::retry(layout.size(), || unsafe { System.alloc_zeroed(layout) });
        }
        got
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let got = unsafe { System.realloc(start, layout, size) };
        if got.is_null() && Self::is_small(size) {
            // SAFETY: the caller's promise; a refused call has left the old memory as it was.
            return Self::retry(size, || unsafe { System.realloc(start, layout, size) });
        }
        got
    }
}

/// Makes an abort print `aborted` and end the process with `code`, as any other failure does: the last resort where
/// a library that is not ours aborts because memory was refused. `shrunk` is for a mapped file that became shorter or
/// whose disk failed (SIGBUS). Only for a process of our own.
#[cfg(unix)]
pub fn set_last_words(aborted: Vec<u8>, shrunk: Vec<u8>, code: i32) {
    LAST_WORDS.get_or_init(|| (aborted, shrunk, code));
    let handler = say_last_words as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does only what a handler may: it writes a message that exists already, and exits.
    unsafe { libc::signal(libc::SIGABRT, handler) };
    if cfg!(target_os = "linux") {
        // Elsewhere SIGBUS also means a stack that is full.
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGBUS, handler) };
    }
}

#[cfg(unix)]
static LAST_WORDS: std::sync::OnceLock<(Vec<u8>, Vec<u8>, i32)> = std::sync::OnceLock::new();

#[cfg(unix)]
extern "C" fn say_last_words(signal: libc::c_int) {
    // The words are there before the handler is.
    let Some((aborted, shrunk, code)) = LAST_WORDS.get() else {
        return;
    };
    let bus = signal == libc::SIGBUS;
    let message = if bus { shrunk } else { aborted };
    // SAFETY: both calls are allowed in a handler, and the message is never changed or freed.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::_exit(*code)
    }
}

#[cfg(not(unix))]
pub fn set_last_words(_aborted: Vec<u8>, _shrunk: Vec<u8>, _code: i32) {}

#[cfg(unix)]
fn map(bytes: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
    // SAFETY: a mapping of its own, wherever the system likes, that nobody touches.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        0
    } else {
        start as usize
    }
}

#[cfg(unix)]
fn unmap(start: usize) {
    // SAFETY: `start` came from `map`, and only the caller has it: it was taken out of `RESERVED`, or never put in.
    unsafe { libc::munmap(start as *mut libc::c_void, RESERVE) };
}

#[cfg(not(unix))]
fn map(_bytes: usize) -> usize {
    0
}

#[cfg(not(unix))]
fn unmap(_start: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_error_and_other_panics_go_on() {
        let refused: Result<()> = or_error(|| {
            grow(&mut Vec::<u64>::new(), usize::MAX / 16);
            Ok(())
        });
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        assert!(probe(usize::MAX / 2).is_err() && probe(1 << 20).is_ok());
        let other = catch_unwind(|| or_error::<()>(|| resume_unwind(Box::new("a bug"))));
        assert!(other.is_err());
    }

    #[test]
    fn the_reserve_comes_back_after_a_refusal() {
        reserve();
        assert_ne!(RESERVED.load(Ordering::Relaxed), 0);
        let given = ReserveAllocator::retry(77, std::ptr::null_mut);
        assert!(given.is_null() && RESERVED.load(Ordering::Relaxed) == 0);
        assert!(matches!(check(), Err(Error::OutOfMemory { bytes: 77 })));
        refill_reserve().unwrap();
        assert!(check().is_ok() && RESERVED.load(Ordering::Relaxed) != 0);
    }
}
