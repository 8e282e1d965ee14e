//! What one thread keeps between calls.

use super::merge::MergeScratch;
use super::Bpe;

/// Cache memory of a thread unless the caller says otherwise.
pub const DEFAULT_CACHE_BYTES: usize = 24 << 20;

/// Buffers and caches of one thread, for one [`Bpe`]; memory is fixed when it is built.
pub struct EncodeState {
    pub(crate) scratch: MergeScratch,
}

impl EncodeState {
    /// A state whose caches take about `cache_bytes`.
    pub fn new(_bpe: &Bpe, _cache_bytes: usize) -> Self {
        Self {
            scratch: MergeScratch::default(),
        }
    }

    /// A state for a few kilobytes of text, cheap to build.
    pub fn small(bpe: &Bpe) -> Self {
        Self::new(bpe, 64 << 10)
    }
}
