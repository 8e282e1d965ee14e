//! Training: texts -> counts of pieces -> merges.
//!
//! Counting is parallel and its sums do not depend on order; merging is exact, on one thread. Neither
//! the thread count, nor the cut into blocks, nor a spill to disk can change the result.

mod count;
mod counts;
mod cut;
mod hash;
mod heap;
mod history;
mod lists;
mod merge;
#[cfg(test)]
mod merge_tests;
mod neighbours;
mod pages;
mod pairs;
mod queue;
mod recount;
mod spill;
mod table;
mod tokens;
mod words;

pub use count::{CountOptions, Counter, Texts, Totals};
pub use counts::{Batch, Counts};
pub use heap::TieBreak;
pub use merge::{MergeOptions, Merger};
pub use table::PieceTable;
pub use tokens::{byte_order, Tokens};
pub use words::{CountSource, Words};

/// Asks the processor to fetch `slice[index]`; an index past the end asks for nothing harmful.
#[inline(always)]
#[allow(unused_variables)]
fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let place = slice.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch is a hint: it never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
}
