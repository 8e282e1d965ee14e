//! Encoder states between calls: building one costs milliseconds, so a codec keeps a few.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use super::added::Part;
use crate::bpe::{Bpe, EncodeState, DEFAULT_CACHE_BYTES};

/// What one thread needs while it encodes.
pub(super) struct Scratch {
    pub state: EncodeState,
    pub parts: Vec<Part>,
    pub ids: Vec<u32>,
    pub text: String,
    large: bool,
}

/// States that no call is using. The lock is never held across a call, so a fork at any time leaves the child with an
/// unlocked pool, unless it happens inside `take`; `try_lock` then leads to a new state.
#[derive(Default)]
pub(super) struct Pool {
    small: Mutex<Vec<Scratch>>,
    large: Mutex<Vec<Scratch>>,
    /// Bytes of all small texts so far: many of them justify a full cache too.
    seen: AtomicUsize,
}

/// Texts of this size or more fill a cache, so it need not grow to its full size first: unseen code with GPT-2 became
/// a fifth faster. A block of `prepare` is nearly twice as large.
const FILLING_TEXT: usize = 512 << 10;
/// Texts of this size or more justify a cache that may grow.
const LARGE_TEXT: usize = 128 << 10;
/// So do small texts that together reach this size.
const MANY_TEXTS: usize = 1 << 20;
/// At most this many idle states are kept, so that a burst of threads does not hold on to its memory.
const KEPT: usize = 4;

impl Pool {
    pub fn take(&self, bpe: &Bpe, text_bytes: usize) -> Scratch {
        let seen = self.seen.fetch_add(text_bytes, Ordering::Relaxed);
        let large = text_bytes >= LARGE_TEXT || seen >= MANY_TEXTS;
        let kept = self.shelf(large).try_lock().ok().and_then(|mut shelf| shelf.pop());
        kept.unwrap_or_else(|| Scratch {
            state: if text_bytes >= FILLING_TEXT {
                EncodeState::new(bpe, DEFAULT_CACHE_BYTES)
            } else if large {
                EncodeState::growing(bpe, DEFAULT_CACHE_BYTES)
            } else {
                EncodeState::small(bpe)
            },
            parts: Vec::new(),
            ids: Vec::new(),
            text: String::new(),
            large,
        })
    }

    pub fn give(&self, mut scratch: Scratch) {
        scratch.state.clear();
        if let Ok(mut shelf) = self.shelf(scratch.large).try_lock() {
            if shelf.len() < KEPT {
                shelf.push(scratch);
            }
        }
    }

    fn shelf(&self, large: bool) -> &Mutex<Vec<Scratch>> {
        if large {
            &self.large
        } else {
            &self.small
        }
    }
}
